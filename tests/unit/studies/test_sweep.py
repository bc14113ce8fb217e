"""A sweep chooses on validation data, tells test scores of the chosen cells alone, and goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fedsuper.cli.entry import main
from fedsuper.config import Study
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.validation import validation_dice
from fedsuper.studies.cells import cell
from fedsuper.studies.sweep import choose, grid, parse_axis


def test_the_grid_gives_a_method_its_own_keys_and_the_shared_ones() -> None:
    axes = [parse_axis("fedsm.lambda=0.3, 0.7"), parse_axis("local_epochs=1,5")]
    assert grid("fedsm", axes) == [
        f"fedsm+lambda={lam}+local_epochs={epochs}" for lam in ("0.3", "0.7") for epochs in ("1", "5")
    ]
    assert grid("fedavg", axes) == ["fedavg+local_epochs=1", "fedavg+local_epochs=5"]
    assert grid("fedavg", axes[:1]) == ["fedavg"]


@pytest.mark.parametrize("text", ["lambda", "=1", "fedsm.lambda=", "rounds=1,1"])
def test_a_wrong_axis_is_one_line(text: str) -> None:
    with pytest.raises(FedSuperError, match="--over"):
        parse_axis(text)


def test_the_choice_is_the_mean_over_seeds_and_the_first_of_equals() -> None:
    cells = {
        "a": {"validation": {"0": 0.9, "1": 0.1}},
        "b": {"validation": {"0": 0.6, "1": 0.6}},
        "c": {"validation": {"0": 0.6, "1": 0.6}},
    }
    assert choose(list(cells), cells) == "b"


def test_validation_is_that_of_what_would_answer() -> None:
    kept = {
        "global": {"score": 0.5},
        "personal/a": {"score": 0.7},
        "personal/b": {"score": 0.9},
        "selector": {"score": 1},
    }
    metrics = {"metrics": {"validation": kept}}
    assert validation_dice(metrics | {"mode": "own"}) == pytest.approx(0.8)
    assert validation_dice(metrics | {"mode": "global"}) == 0.5
    curve = [{"gamma": 0.0, "dice": 0.6}, {"gamma": 0.9, "dice": 0.85}]
    assert validation_dice(metrics | {"mode": "select", "gamma": 0.9, "gamma_curve": curve}) == 0.85
    assert validation_dice({"mode": "own"}) is None


def test_a_sweep_on_real_runs(
    tiny_root: Path,
    tiny_study: Study,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study, out = tmp_path / "study.yaml", tmp_path / "out"
    study.write_text(yaml.safe_dump(tiny_study.to_json() | {"rounds": 1}))
    call = ["sweep", "--data", str(tiny_root), "--config", str(study), "--methods", "fedavg,fedprox", "--out", str(out),
            "--over", "optimizer.lr=0.01,0.00001", "--over", "fedprox.mu=0.01,0.1", "--workers", "1"]  # fmt: skip
    trained: list[Path] = []
    really = cell.run_study

    def stop_after_three(study: Study, data_root: Path, folder: Path, *rest: object, **named: object) -> object:
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(folder)
        return really(study, data_root, folder, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(cell, "run_study", stop_after_three)
    assert main(call) == 130
    monkeypatch.setattr(cell, "run_study", really)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("supermodel.json")}
    assert len(before) >= 3
    capsys.readouterr()
    assert main(call) == 0
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())  # what was done is not done again
    record = json.loads((out / "sweep.json").read_text())
    assert record["budget"] == {"fedavg": {"cells": 2, "rounds": 2}, "fedprox": {"cells": 4, "rounds": 4}}
    for method, row in record["chosen"].items():
        best = max(found["validation"]["0"] for name, found in record["cells"].items() if name.startswith(method))
        assert record["cells"][row]["validation"]["0"] == best
    metrics = json.loads((out / "metrics.json").read_text())
    assert set(metrics["methods"]) == set(record["chosen"].values())  # test scores of the chosen ones alone
    assert "Tuning budget: fedavg: 2 cells, 2 rounds; fedprox: 4 cells, 4 rounds" in capsys.readouterr().out
    assert main(["report", str(out), "--out", str(tmp_path / "report.html")]) == 0
    section = (tmp_path / "report.html").read_text().partition('id="part-1-tuning"')[2].partition("</section>")[0]
    assert section.count('class="best"') == 2 and "not given equally many cells" in section


def test_an_axis_of_a_method_that_is_not_there(
    tiny_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = [
        "sweep",
        "--data",
        str(tiny_root),
        "--methods",
        "fedavg",
        "--over",
        "fedsm.lambda=0.3",
        "--out",
        str(tmp_path),
    ]
    assert main(call) == 2
    assert "no method of this sweep has it" in capsys.readouterr().err
