"""The outside experiment, at the smallest size: every row there, files written, a second call trains nothing."""

import json

import pytest

from fedsuper.data.synthetic import retina
from fedsuper.studies import outside

TINY = outside.STUDY | {
    "rounds": 1,
    "image_size": 32,
    "model": {"channels": [4, 8], "residual_units": 0, "norm": "batch"},
    "routing": {"radius": 1, "epochs": 1},
}


@pytest.mark.slow
def test_every_row_is_there_and_the_second_call_trains_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(retina, "OUTSIDE_IMAGES", 3)
    monkeypatch.setattr(outside, "VARIANTS", {outside.UNTUNED: {"epochs": 0}, "level: global": {"level": "global"}})
    text = outside.run_outside(tmp_path, [0], TINY, images=24)
    result = json.loads((tmp_path / "outside.json").read_text())
    expected = ["global", "global-stats", "tent", "ttt", "ensemble", "average", "select", "route", "oracle"]
    assert set(expected) | {f"site:site-{n}" for n in range(1, 7)} | {"ttt, before test time"} == set(result["modes"])
    assert all("mean" in entry for entry in result["modes"].values())
    assert list(result["variants"]) == ["route", outside.UNTUNED, "level: global"]
    assert list(result["statistics"]) == ["global", *(f"site-{n}" for n in range(1, 7)), "oracle", "route"]
    assert result["statistics"]["global"]["mean"] == result["modes"]["global-stats"]["mean"]
    assert result["modes"]["oracle"]["mean"] >= max(result["modes"][f"site:site-{n}"]["mean"] for n in range(1, 7))
    assert (tmp_path / "routing-matrix.png").exists() and (tmp_path / "routing-time.png").exists()
    assert text == (tmp_path / "outside.md").read_text()
    weights = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.safetensors")}
    outside.run_outside(tmp_path, [0], TINY, images=24)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.safetensors")} == weights
    again = json.loads((tmp_path / "outside.json").read_text())
    assert [entry["mean"] for entry in again["modes"].values()] == [entry["mean"] for entry in result["modes"].values()]
