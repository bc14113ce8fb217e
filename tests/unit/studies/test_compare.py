"""`fedsuper compare` as a user meets it: rows, merged methods, going on, and scoring."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from fedsuper.cli import main
from fedsuper.config import Study
from fedsuper.core.state import State
from fedsuper.engines.in_process import run_local
from fedsuper.federation.progress import Silent
from fedsuper.inference import artifact
from fedsuper.methods import METHODS
from fedsuper.report.runs import read_run
from fedsuper.studies.compare import DEFAULT_METHODS, rows_named
from fedsuper.studies.run import run_study
from fedsuper.studies.score import score_run
from fedsuper.train.checkpoint import digest


def test_one_site_is_left_as_it_is(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    """K = 1: SoftPull has nobody to pull towards, so the personalized model is the global one, trained alone."""
    root = tmp_path / "root"
    root.mkdir()
    shutil.copy(tiny_root / "dataset.json", root)
    shutil.copytree(tiny_root / "site-1", root / "site-1")
    alone = run_local(tiny_study, root, tmp_path / "run", Silent())
    assert digest(alone.personal["site-1"]) == digest(alone.global_model)


def test_compare_merges_methods_and_goes_on_where_it_stopped(
    tiny_root: Path, study_file: Path, tmp_path: Path, capsys
) -> None:
    out = tmp_path / "compared"
    command = ["compare", "--data", str(tiny_root), "--config", str(study_file), "--out", str(out), "--workers", "1"]
    assert main([*command, "--methods", "fedavg", "--set", "rounds=1"]) == 0
    kept = (out / "runs" / "fedavg" / "seed-0" / "supermodel" / "supermodel.json").stat().st_mtime_ns
    assert main([*command, "--methods", "fedavg,local,centralized", "--set", "rounds=1"]) == 0
    assert (out / "runs" / "fedavg" / "seed-0" / "supermodel" / "supermodel.json").stat().st_mtime_ns == kept
    metrics = json.loads((out / "metrics.json").read_text())
    assert list(metrics["methods"]) == ["fedavg", "local", "centralized"]
    assert "client avg" in capsys.readouterr().out
    assert main([*command, "--methods", "fedavg", "--set", "rounds=2"]) == 2  # another study in the same folder
    assert "another study" in capsys.readouterr().err


@pytest.mark.slow
def test_a_row_of_a_comparison_may_change_the_study(tiny_root: Path, study_file: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "compared"
    command = ["compare", "--data", str(tiny_root), "--config", str(study_file), "--workers", "1", "--out", str(out)]
    rows = ["fedavg", "fedbn+model.norm=batch", "fedsm+personal=ft+ft.epochs=1"]
    assert main([*command, "--methods", ",".join(rows), "--set", "rounds=1"]) == 0
    assert list(json.loads((out / "metrics.json").read_text())["methods"]) == rows
    norm, personal = (
        json.loads((out / "runs" / row / "seed-0" / "supermodel" / "supermodel.json").read_text())["study"]
        for row in rows[1:]
    )
    assert norm["model"]["norm"] == "batch" and norm["method"] == "fedbn"
    assert personal["fedsm"]["personal"] == "ft" and personal["ft"] == {"epochs": 1}
    told = {entry.label: entry.manifest["study"]["method"] for entry in read_run(out).entries}
    assert told == {row: row.partition("+")[0] for row in rows}
    assert main(["report", str(out), "--out", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "FedBN, model.norm=batch" in page and "FedSM, personal=ft, ft.epochs=1" in page
    capsys.readouterr()
    for row, words in {
        "fedsm+personal=magic": "personal",
        "fedsm+lamda=0.3": "lamda",
        "fedsm+personal": "key=value",
        "fedsm+loss=a/b": "'/'",
        "magic+rounds=1": "magic",
        "fedsm+method=fedavg": "method comes first",
        "fedsm+seed=3": "--seeds",
    }.items():
        assert main([*command[:-1], str(tmp_path / "no"), "--methods", f"fedavg,{row}"]) == 2
        assert words in capsys.readouterr().err and not (tmp_path / "no").exists()


def test_all_stands_for_every_method_and_rows_come_once() -> None:
    assert rows_named("fedsm+personal=ft,all,fedsm") == ["fedsm+personal=ft", *METHODS]
    assert rows_named(None) == list(DEFAULT_METHODS)


def test_scoring_a_run_reads_its_super_model_once(
    tiny_root: Path, tiny_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_study(tiny_study, tiny_root, tmp_path / "run", "local")
    files: Counter[str] = Counter()
    read = artifact._load_weights

    def counting(folder: Path, key: str, entry: Mapping[str, str]) -> State:
        files[key] += 1
        return read(folder, key, entry)

    monkeypatch.setattr(artifact, "_load_weights", counting)
    score_run(tmp_path / "run", tiny_root)
    assert {"global", "selector", *(f"personal/site-{n}" for n in (1, 2, 3))} <= files.keys()
    assert set(files.values()) == {1}
