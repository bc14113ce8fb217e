"""The benchmark of predict: what it compares really runs, and what it promises can be missed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedsuper.bench import predict, run_benchmarks
from fedsuper.bench.bare_loop import BareLoop


@pytest.mark.slow
def test_a_small_run_measures_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "LEAST_RATE", {64: 0.0, 32: 1e9})
    monkeypatch.setattr(predict, "FEW_SITES", 2)
    monkeypatch.setattr(predict, "MANY_SITES", 4)
    monkeypatch.setattr(predict, "MEMORY_FILES", 24)
    monkeypatch.setattr(predict, "SITES", 2)
    monkeypatch.setattr(predict, "FILES", 24)
    original = predict.run
    monkeypatch.setattr(predict, "run", lambda out: original(out, files=24, turns=1))
    assert run_benchmarks(["predict"], tmp_path) == 1, "a promise that no program keeps is missed"
    result = json.loads((tmp_path / "predict.json").read_text())
    kept = result["promises"]
    assert kept["select at 0 or more of the bare loop's rate at 64 px"] is True
    assert kept["select at 1e+09 or more of the bare loop's rate at 32 px"] is False
    rates = result["64 px"]
    assert rates["select_of_bare"] == pytest.approx(rates["select_per_second"] / rates["bare_per_second"])
    assert result["peak_megabytes"]["4 sites"] > 50
    assert [path.name for path in tmp_path.iterdir()] == ["predict.json"]


def test_the_bare_loop_writes_a_mask_for_every_picture(tmp_path: Path) -> None:
    images = predict.make_images(tmp_path / "in", 32, 3)
    with BareLoop(32, tmp_path / "in") as bare:
        assert bare.seconds(tmp_path / "out") > 0
    assert bare.process.returncode == 0
    masks = [tmp_path / "out" / path.name for path in images]
    assert [np.asarray(Image.open(path)).shape for path in masks] == [(32, 32)] * 3
