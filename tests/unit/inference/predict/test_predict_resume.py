"""A run that broke off, or gets more images, predicts what is new and nothing else, with the same masks."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from predict_inputs import picture, saved
from super_models import random_super_model

from fedsuper.errors import FedSuperError
from fedsuper.inference.predict import pipeline
from fedsuper.inference.predict.predict_paths import Output, predict_paths
from fedsuper.inference.predict.record import alone_in
from fedsuper.inference.segment import Segmenter


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved(random_super_model(["A", "B"]), tmp_path / "sm")


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    for number in range(6):
        picture(tmp_path / "in" / f"{number}.png", seed=number)
    return tmp_path / "in"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images the nets saw, call by call."""
    counts: list[int] = []
    original = Segmenter.predict

    def counted(self: Segmenter, cases, *more):
        counts.append(len(cases))
        return original(self, cases, *more)

    monkeypatch.setattr(Segmenter, "predict", counted)
    return counts


def run(model: Path, inputs: Path, out: Path, **options: object) -> tuple[int, str]:
    told = io.StringIO()
    return predict_paths(model, [inputs], out, stream=told, **options), told.getvalue()  # type: ignore[arg-type]


def masks(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.glob("*.png"))}


def table(out: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((out / "routing.csv").read_text())))


def test_what_is_done_is_not_done_again(model: Path, inputs: Path, tmp_path: Path, seen: list[int]) -> None:
    run(model, inputs, tmp_path / "out")
    before, rows = masks(tmp_path / "out"), table(tmp_path / "out")
    code, told = run(model, inputs, tmp_path / "out")
    assert code == 0 and sum(seen) == 6 and "6 of 6 images were done before" in told
    assert masks(tmp_path / "out") == before and table(tmp_path / "out") == rows
    assert (tmp_path / "out" / "preview.jpg").exists()


def test_new_changed_and_lost_ones_are_done(model: Path, inputs: Path, tmp_path: Path, seen: list[int]) -> None:
    run(model, inputs, tmp_path / "out")
    whole = masks(tmp_path / "out")
    picture(inputs / "new.png", seed=50)
    picture(inputs / "3.png", seed=60)
    (tmp_path / "out" / "4.png").unlink()
    run(model, inputs, tmp_path / "out")
    assert sum(seen) == 6 + 3
    assert len(table(tmp_path / "out")) == 7
    after = masks(tmp_path / "out")
    assert after["4.png"] == whole["4.png"] and after["3.png"] != whole["3.png"]


@pytest.mark.parametrize("change", [
    {"gamma": 0.1}, {"mode": "global"}, {"overrides": ["prediction.tta=true"]}, {"again": True},
])
def test_other_settings_start_anew(
    model: Path, inputs: Path, tmp_path: Path, seen: list[int], change: dict[str, object]
) -> None:
    run(model, inputs, tmp_path / "out")
    run(model, inputs, tmp_path / "out", **change)
    assert sum(seen) == 12


def test_another_super_model_starts_anew(model: Path, inputs: Path, tmp_path: Path, seen: list[int]) -> None:
    run(model, inputs, tmp_path / "out")
    other = saved(random_super_model(["A", "C"]), tmp_path / "other")
    run(other, inputs, tmp_path / "out")
    assert sum(seen) == 12 and "p_C" in table(tmp_path / "out")[0]


def test_a_broken_run_goes_on_with_the_same_masks(
    model: Path, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: list[int]
) -> None:
    monkeypatch.setattr(pipeline, "pass_size", lambda *_: 1)
    monkeypatch.setattr(pipeline, "WINDOW_ALONE", 2)
    run(model, inputs, tmp_path / "whole")
    original, windows = Segmenter.predict, 0

    def dying(self: Segmenter, cases, *more):
        nonlocal windows
        windows += 1
        if windows == 3:
            raise KeyboardInterrupt
        return original(self, cases, *more)

    with monkeypatch.context() as patch:
        patch.setattr(Segmenter, "predict", dying)
        with pytest.raises(KeyboardInterrupt):
            run(model, inputs, tmp_path / "out")
    left = masks(tmp_path / "out")
    assert 0 < len(left) < 6 and not json.loads((tmp_path / "out" / "predict.json").read_text())["complete"]
    seen.clear()
    code, _ = run(model, inputs, tmp_path / "out")
    assert code == 0 and sum(seen) == 6 - len(left)
    assert masks(tmp_path / "out") == masks(tmp_path / "whole")
    assert [row["model"] for row in table(tmp_path / "out")] == [row["model"] for row in table(tmp_path / "whole")]
    assert not (tmp_path / "out" / "predict.journal").exists()


def test_a_journal_torn_in_its_last_line_is_read_up_to_there(
    model: Path, inputs: Path, tmp_path: Path, seen: list[int]
) -> None:
    run(model, inputs, tmp_path / "out")
    record = json.loads((tmp_path / "out" / "predict.json").read_text())
    entries = record["images"]
    record["images"] = [{key: entry[key] for key in ("image", "mask", "source")} for entry in entries]
    (tmp_path / "out" / "predict.json").write_text(json.dumps(record | {"complete": False}))
    lines = [json.dumps(entry) for entry in entries[:3]]
    (tmp_path / "out" / "predict.journal").write_text("\n".join(lines) + '\n{"image": "')
    seen.clear()
    run(model, inputs, tmp_path / "out")
    assert sum(seen) == 3


def test_an_online_mode_starts_anew_since_order_matters(inputs: Path, tmp_path: Path, seen: list[int]) -> None:
    norm = {"channels": [4, 8], "residual_units": 0, "norm": "batch"}
    folder = saved(random_super_model(["A", "B"], model=norm), tmp_path / "tent")
    for _ in range(2):
        run(folder, inputs, tmp_path / "out", mode="tent")
    assert sum(seen) == 12
    for _ in range(2):
        run(folder, inputs, tmp_path / "reset", mode="tent", overrides=["modes.tent.online=false"])
    assert sum(seen) == 12 + 6


def test_probabilities_and_formats_belong_to_the_settings(
    model: Path, inputs: Path, tmp_path: Path, seen: list[int]
) -> None:
    run(model, inputs, tmp_path / "out")
    run(model, inputs, tmp_path / "out", output=Output(probabilities=True))
    assert sum(seen) == 12 and len(list((tmp_path / "out").glob("*-probabilities.npz"))) == 6


def test_a_folder_that_no_prediction_wrote_is_left_alone(model: Path, inputs: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "predict.json").write_text('{"images": 3}')
    with pytest.raises(FedSuperError, match="is not a prediction's record"):
        run(model, inputs, tmp_path / "out")


def test_a_second_prediction_into_a_folder_at_work_is_refused(model: Path, inputs: Path, tmp_path: Path) -> None:
    with alone_in(tmp_path / "out"):
        with pytest.raises(FedSuperError, match="a prediction is at work here already"):
            run(model, inputs, tmp_path / "out")
        assert not list((tmp_path / "out").iterdir())
    run(model, inputs, tmp_path / "out")
    assert masks(tmp_path / "out")


@pytest.mark.slow
def test_killed_at_any_moment_every_mask_is_whole(model: Path, tmp_path: Path) -> None:
    """A real process, ended by SIGKILL in the middle; what is left is whole and the next run completes it."""
    for number in range(40):
        picture(tmp_path / "many" / f"{number:02d}.png", (160, 120), seed=number)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "fedsuper.cli", "predict", str(model), str(tmp_path / "many"), "--out", str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(out.glob("[0-9]*.png"))) < 9 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert subprocess.run(command, env=environment, capture_output=True).returncode == 0
    run(model, tmp_path / "many", tmp_path / "whole")
    assert masks(out) == masks(tmp_path / "whole")
    assert len(table(out)) == 40
