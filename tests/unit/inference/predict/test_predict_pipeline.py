"""Several cores at work on one folder: the same bits in the same order as one, in bounded memory."""

from __future__ import annotations

import csv
import io
import os
import threading
from pathlib import Path

import pytest
from predict_inputs import familiar_super_model, picture, saved

from fedsuper.data.images.io import Image, read_image
from fedsuper.files import atomic_write_text, unhurried
from fedsuper.inference.predict import pipeline
from fedsuper.inference.predict.predict_paths import predict_paths
from fedsuper.inference.segment import Answer

FILES = 40


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved(familiar_super_model(), tmp_path / "sm")


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    for number in range(FILES):
        picture(tmp_path / "in" / f"{number:02d}.png", seed=number)
    (tmp_path / "in" / "17.png").write_bytes(b"torn")
    return tmp_path / "in"


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "pass_size", lambda *_: 1)
    monkeypatch.setattr(pipeline, "WINDOW_ALONE", 2)


def run(model: Path, inputs: Path, out: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Everything written that does not name a time or a folder."""
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "cores", lambda: workers)
        assert predict_paths(model, [inputs], out, stream=io.StringIO()) == 1, "one image is torn"
    return {path.name: path.read_bytes() for path in out.iterdir() if path.suffix in (".png", ".csv", ".jpg")}


@pytest.mark.usefixtures("small_windows")
def test_any_number_of_workers_gives_the_same_files(
    model: Path, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = run(model, inputs, tmp_path / "alone", 1, monkeypatch)
    assert len(alone) == FILES - 1 + 2
    for workers in (2, 5):
        assert run(model, inputs, tmp_path / str(workers), workers, monkeypatch) == alone
    rows = list(csv.DictReader(io.StringIO(alone["routing.csv"].decode())))
    order = [Path(row["image"]).name for row in rows]
    assert order == sorted(set(path.name for path in inputs.iterdir()) - {"17.png"})


@pytest.mark.parametrize("together", [1, 2])
def test_the_last_windows_are_shared_out_in_whole_passes(
    together: int, model: Path, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows: list[int] = []
    predict = pipeline.Pipeline._windows

    def noted(self: pipeline.Pipeline, images: object) -> object:
        for window, problems in predict(self, images):  # type: ignore[arg-type]
            windows.append(len(window))
            yield window, problems

    monkeypatch.setattr(pipeline, "pass_size", lambda *_: together)
    monkeypatch.setattr(pipeline.Pipeline, "_windows", noted)
    run(model, inputs, tmp_path / "out", 2, monkeypatch)
    windows = [size for size in windows if size]
    assert sum(windows) == FILES - 1 and max(windows) == 16
    assert min(windows) <= together, "at the end no core has much more left than another"
    assert sum(size % together > 0 for size in windows) <= 1, "no pass is half empty but the last one"


@pytest.mark.usefixtures("small_windows")
def test_a_core_does_all_there_is_to_do_for_its_images(
    model: Path, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: dict[str, int] = {}
    written: dict[str, int] = {}
    original = pipeline.Pipeline._finish

    def opening(path: Path) -> Image:
        read[path.name] = threading.get_ident()
        return read_image(path)

    def finishing(self: pipeline.Pipeline, number: int, image: Image, answer: Answer) -> None:
        written[image.path.name] = threading.get_ident()
        original(self, number, image, answer)

    monkeypatch.setattr(pipeline, "read_image", opening)
    monkeypatch.setattr(pipeline.Pipeline, "_finish", finishing)
    run(model, inputs, tmp_path / "out", 2, monkeypatch)
    assert len(written) == FILES - 1 and written == {name: read[name] for name in written}
    assert 1 <= len(set(read.values())) <= 2


@pytest.mark.usefixtures("small_windows")
def test_no_more_images_are_open_than_promised(
    model: Path, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, most, lock = 0, 0, threading.Lock()

    def opening(path: Path) -> Image:
        nonlocal held, most
        image = read_image(path)
        with lock:
            held += 1
            most = max(most, held)
        return image

    original = pipeline.Pipeline._finish

    def finishing(self: pipeline.Pipeline, *what: object) -> None:
        nonlocal held
        original(self, *what)  # type: ignore[arg-type]
        with lock:
            held -= 1

    monkeypatch.setattr(pipeline, "read_image", opening)
    monkeypatch.setattr(pipeline.Pipeline, "_finish", finishing)
    run(model, inputs, tmp_path / "out", 2, monkeypatch)
    window, workers = 2, 2
    assert held == 0 and window <= most <= workers * window


def test_a_window_of_large_images_has_few(
    model: Path, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    original = pipeline.Pipeline._predict

    def noted(self: pipeline.Pipeline, window: list[pipeline._Opened]) -> list[Answer]:
        sizes.append(len(window))
        return original(self, window)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "WINDOW_BYTES", 1)
        patch.setattr(pipeline.Pipeline, "_predict", noted)
        alone = run(model, inputs, tmp_path / "alone", 2, monkeypatch)
    assert sum(sizes) == FILES - 1 and max(sizes) == 1
    assert run(model, inputs, tmp_path / "together", 2, monkeypatch) == alone


@pytest.mark.usefixtures("small_windows")
def test_what_one_worker_meets_is_told_and_nothing_hangs(
    model: Path, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: pipeline.Pipeline, window: list[object]) -> list[object]:
        raise MemoryError("no room")

    monkeypatch.setattr(pipeline.Pipeline, "_predict", failing)
    with pytest.raises(MemoryError, match="no room"):
        run(model, inputs, tmp_path / "out", 3, monkeypatch)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith(("nets", "read_", "write"))]


def test_an_empty_mask_is_made_again(
    model: Path, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(model, inputs, tmp_path / "out", 2, monkeypatch)
    (tmp_path / "out" / "03.png").write_bytes(b"")  # what a machine that lost power may have left
    assert run(model, inputs, tmp_path / "out", 2, monkeypatch) == whole


def test_masks_do_not_wait_for_the_disk_but_records_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with unhurried():
        atomic_write_text(tmp_path / "a" / "mask", "whole")
        assert not synced
    atomic_write_text(tmp_path / "a" / "record", "whole")
    assert len(synced) == 1 and [path.name for path in sorted((tmp_path / "a").iterdir())] == ["mask", "record"]
