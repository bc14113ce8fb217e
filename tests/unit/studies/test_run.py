"""`fedsuper run` and `compare` as a user meets them: results, resume, and one line for every mistake."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from fedsuper.cli import main
from fedsuper.config import Study
from fedsuper.config.reading import change_method
from fedsuper.core.state import State
from fedsuper.engines.in_process import run_local
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.run_files.tables import read_features
from fedsuper.federation.checkpoints import load_latest
from fedsuper.federation.progress import Progress, Silent
from fedsuper.inference import artifact
from fedsuper.methods import METHODS
from fedsuper.report.runs import read_run
from fedsuper.studies.compare import DEFAULT_METHODS, rows_named
from fedsuper.studies.run import run_study
from fedsuper.studies.score import score_run
from fedsuper.train.checkpoint import digest


def fingerprint_of(super_model) -> dict[str, str]:
    models = dict(super_model.experts()) | ({"selector": super_model.selector} if super_model.selector else {})
    return {name: digest(state) for name, state in models.items()}


@pytest.fixture
def study_file(tmp_path: Path, tiny_study: Study) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(tiny_study.to_json()))
    return path


def test_the_number_of_threads_does_not_change_a_bit(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    one = run_local(tiny_study, tiny_root, tmp_path / "one", Silent(), threads=1)
    three = run_local(tiny_study, tiny_root, tmp_path / "three", Silent(), threads=3)
    assert fingerprint_of(one) == fingerprint_of(three)
    other = run_local(tiny_study.with_seed(1), tiny_root, tmp_path / "other", Silent())
    assert fingerprint_of(one) != fingerprint_of(other)


def test_run_writes_what_the_contract_names_and_refuses_to_write_over_it(
    tiny_root: Path, study_file: Path, tmp_path: Path, capsys
) -> None:
    out = tmp_path / "run"
    assert main(["run", str(study_file), "--data", str(tiny_root), "--out", str(out), "--engine", "local"]) == 0
    metrics = json.loads((out / "metrics.json").read_text())
    fedsm = metrics["methods"]["fedsm"]
    assert set(fedsm["per_site"]) == {"site-1", "site-2", "site-3"}
    assert set(fedsm["per_site"]["site-1"]) >= {"disc", "cup", "mean"}
    assert fedsm["client_avg"] == pytest.approx(sum(site["mean"] for site in fedsm["per_site"].values()) / 3)
    assert (out / "per_image.csv").exists()
    assert set(read_features(out, "fedsm")) == {"site-1", "site-2", "site-3"}
    manifest = json.loads((out / "supermodel" / "supermodel.json").read_text())
    assert manifest["sites"] == ["site-1", "site-2", "site-3"]
    assert 0 <= manifest["gamma"] <= 1 and manifest["gamma_curve"]
    assert {"task", "versions", "metrics", "provenance"} <= manifest.keys()
    capsys.readouterr()
    assert main(["run", str(study_file), "--data", str(tiny_root), "--out", str(out), "--engine", "local"]) == 2
    assert "--resume" in capsys.readouterr().err


def test_gamma_one_is_exactly_fedavg(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    """FedSM's global model is FedAvg's, bit for bit: the three roles do not touch one another."""
    fedsm = run_local(tiny_study, tiny_root, tmp_path / "fedsm", Silent())
    fedavg = run_local(change_method(tiny_study, "fedavg"), tiny_root, tmp_path / "fedavg", Silent())
    assert digest(fedsm.global_model) == digest(fedavg.global_model)


def test_a_torn_checkpoint_falls_back_to_the_one_before(
    tiny_root: Path, tiny_study: Study, tmp_path: Path, capsys
) -> None:
    whole = run_local(tiny_study, tiny_root, tmp_path / "run", Silent())
    server = tmp_path / "run" / "server"
    newest = server / "round-00002.safetensors"
    newest.write_bytes(newest.read_bytes()[:1000])
    assert load_latest(server, tiny_study).round == 1
    assert "round-00002" in capsys.readouterr().err
    again = run_local(tiny_study, tiny_root, tmp_path / "run", Silent(), resume=True)
    assert fingerprint_of(again) == fingerprint_of(whole)
    for path in server.glob("*.safetensors"):
        path.write_bytes(b"torn")
    with pytest.raises(FedSuperError, match="no whole checkpoint"):
        load_latest(server, tiny_study)


def test_an_altered_checkpoint_is_noticed(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    run_local(tiny_study, tiny_root, tmp_path / "run", Silent())
    server = tmp_path / "run" / "server"
    for path in server.glob("*.safetensors"):
        data = bytearray(path.read_bytes())
        data[-5] ^= 0xFF
        path.write_bytes(bytes(data))
    with pytest.raises(FedSuperError, match="digest"):
        load_latest(server, tiny_study)


def test_resume_wants_the_same_study(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    run_local(tiny_study, tiny_root, tmp_path / "run", Silent())
    changed = tiny_study.model_copy(update={"batch_size": 2})
    with pytest.raises(FedSuperError, match="batch_size"):
        run_local(changed, tiny_root, tmp_path / "run", Silent(), resume=True)
    longer = tiny_study.model_copy(update={"rounds": 3})
    assert run_local(longer, tiny_root, tmp_path / "run", Silent(), resume=True).manifest["metrics"]["rounds"] == 3


def test_rounds_auto_stops_when_nothing_gains(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    """A learning rate too small to learn anything: the study ends `patience` rounds after the last gain."""
    frozen = tiny_study.optimizer.model_copy(update={"lr": 1e-12})
    study = tiny_study.model_copy(update={"rounds": "auto", "patience": 2, "max_rounds": 9, "optimizer": frozen})
    assert run_local(study, tiny_root, tmp_path / "run", Silent()).manifest["metrics"]["rounds"] == 2


def test_lambda_below_one_over_k_is_a_warning(tiny_root: Path, tiny_study: Study, tmp_path: Path, capsys) -> None:
    study = tiny_study.model_copy(update={"rounds": 1, "knobs": {"fedsm": {"lambda": 0.1}}})
    run_local(study, tiny_root, tmp_path / "run", Progress("fedsm", 1))
    assert "below 1/K = 0.333" in capsys.readouterr().err


def broken_root(kind: str, tiny_root: Path, tmp_path: Path) -> Path:
    root = tmp_path / "root"
    if kind == "missing":
        return root
    if kind == "empty":
        root.mkdir()
        return root
    shutil.copytree(tiny_root, root)
    if kind == "no labels":
        shutil.rmtree(root / "site-2" / "labels")
    if kind == "no dataset.json":
        (root / "dataset.json").unlink()
    return root


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("missing", ["root"]),
        ("empty", ["root"]),
        ("no labels", ["site-2", "label"]),
        ("no dataset.json", ["dataset.json"]),
    ],
)
def test_a_broken_data_root_is_one_line(
    kind: str, words: list[str], tiny_root: Path, study_file: Path, tmp_path: Path, capsys
) -> None:
    root = broken_root(kind, tiny_root, tmp_path)
    code = main(["run", str(study_file), "--data", str(root), "--out", str(tmp_path / "out"), "--engine", "local"])
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert code == 2 and error.startswith("fedsuper: ")
    for word in words:
        assert word in error


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--set", "rouds=3"], ["unknown key", "rouds"]),
        (["--set", "fedsm.lambda=1.5"], ["lambda"]),
        (["--set", "fedsm.gamma=2"], ["gamma"]),
        (["--set", "rounds=0"], ["rounds"]),
        (["--set", "federation.min_sites=4"], ["min_sites is 4", "has 3"]),
        (["--set", "image_size=33"], ["image_size", "multiple of 2"]),
        (["--set", "compute.device=cuda:7"], ["cuda:7"]),
    ],
)
def test_a_bad_study_is_one_line_and_writes_nothing(
    extra: list[str], words: list[str], tiny_root: Path, study_file: Path, tmp_path: Path, capsys
) -> None:
    out = tmp_path / "out"
    assert main(["run", str(study_file), "--data", str(tiny_root), "--out", str(out), "--engine", "local", *extra]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("fedsuper: ") and all(word in error for word in words)
    assert not (out / "supermodel").exists()


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
