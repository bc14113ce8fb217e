"""The watch folder: complete images only, each mask exactly once and whole, bad files aside with their reason."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow
from predict_inputs import saved
from super_models import random_super_model

from fedsuper.errors import FedSuperError
from fedsuper.files import PARTIAL
from fedsuper.inference.artifact import save_super_model
from fedsuper.inference.predict.predict_paths import predict_paths
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.watch.inbox import Inbox
from fedsuper.inference.watch.outbox import HIDDEN, Outbox
from fedsuper.inference.watch.watch_folder import Watch, watch


def put(folder: Path, name: str, seed: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    Pillow.fromarray(pixels).save(folder / name)
    return folder / name


@pytest.fixture
def predictor() -> Predictor:
    return Predictor(random_super_model())


def watch_of(predictor: Predictor, tmp_path: Path) -> Watch:
    (tmp_path / "inbox").mkdir(exist_ok=True)
    return Watch(predictor, Inbox(tmp_path / "inbox", settle=0), Outbox(tmp_path / "outbox"), poll=0.01)


def rows(outbox: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((outbox / "routing.csv").open(encoding="utf-8")))


def test_what_arrives_gets_a_mask(predictor: Predictor, tmp_path: Path) -> None:
    put(tmp_path / "inbox", "a.png")
    put(tmp_path / "inbox", "b.png", 1)
    assert watch_of(predictor, tmp_path).run(once=True) == 0
    assert {path.name for path in (tmp_path / "outbox").glob("*.png")} == {"a.png", "b.png"}
    assert [row["mask"] for row in rows(tmp_path / "outbox")] == ["a.png", "b.png"]
    predict_paths(saved(predictor.super_model, tmp_path / "model"), [tmp_path / "inbox"], tmp_path / "masks")
    assert [row | {"image": ""} for row in rows(tmp_path / "outbox")] == [row | {"image": ""} for row in
                                                                         rows(tmp_path / "masks")]
    assert json.loads((tmp_path / "outbox" / "watch.json").read_text())["masks"] == 2


def test_nothing_is_done_twice(predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "inbox", "a.png")
    watch_of(predictor, tmp_path).run(once=True)
    before = (tmp_path / "outbox" / "a.png").stat().st_ino
    again = watch_of(predictor, tmp_path)
    monkeypatch.setattr("fedsuper.inference.watch.watch_folder.segment", None)
    assert again.run(once=True) == 0
    assert (tmp_path / "outbox" / "a.png").stat().st_ino == before


def test_an_image_sent_again_gets_its_own_mask(predictor: Predictor, tmp_path: Path) -> None:
    put(tmp_path / "inbox", "a.png")
    watch_of(predictor, tmp_path).run(once=True)
    put(tmp_path / "inbox", "a.png", seed=5)
    watch_of(predictor, tmp_path).run(once=True)
    assert {path.name for path in (tmp_path / "outbox").glob("*.png")} == {"a.png", "a-2.png"}


def test_a_file_that_grows_is_waited_for(tmp_path: Path) -> None:
    now = [0.0]
    inbox = Inbox(tmp_path, settle=2, clock=lambda: now[0])
    path = tmp_path / "a.png"
    path.write_bytes(b"1")
    assert inbox.arrivals() == ([], 1)
    now[0] = 1.5
    path.write_bytes(b"12")
    assert inbox.arrivals() == ([], 1)
    now[0] = 3.4
    assert inbox.arrivals() == ([], 1)
    now[0] = 3.6
    complete, arriving = inbox.arrivals()
    assert [arrival.path for arrival in complete] == [path] and arriving == 0


@pytest.mark.parametrize("name", ["a.png.part", ".hidden.png", "b.tmp", "c.png~"])
def test_unfinished_files_are_passed_over(tmp_path: Path, name: str) -> None:
    put(tmp_path, "x.png").rename(tmp_path / name)
    assert Inbox(tmp_path, settle=0).arrivals() == ([], 0)


def test_a_file_that_changes_while_it_is_read_is_left_for_the_next_look(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedsuper.inference.watch import watch_folder

    path, real = put(tmp_path / "inbox", "a.png"), watch_folder.read_image

    def growing(given: Path) -> object:
        image = real(given)
        if not (tmp_path / "touched").exists():
            (tmp_path / "touched").touch()
            put(tmp_path / "inbox", path.name, seed=9)
        return image

    monkeypatch.setattr(watch_folder, "read_image", growing)
    watch_of(predictor, tmp_path).run(once=True)
    assert len(rows(tmp_path / "outbox")) == 1


def test_bad_files_are_moved_aside_with_the_reason(predictor: Predictor, tmp_path: Path) -> None:
    put(tmp_path / "inbox", "good.png")
    (tmp_path / "inbox" / "bad.png").write_bytes(b"no image")
    assert watch_of(predictor, tmp_path).run(once=True) == 1
    refused = tmp_path / "inbox" / "refused"
    assert (refused / "bad.png").read_bytes() == b"no image"
    assert "bad.png" in (refused / "bad.png.reason.txt").read_text()
    assert (tmp_path / "outbox" / "good.png").exists() and not (tmp_path / "inbox" / "bad.png").exists()


def test_an_inbox_that_may_not_be_changed_is_left_alone(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inbox, "refuse", lambda self, arrival, reason: None)
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "bad.png").write_bytes(b"no image")
    assert watch_of(predictor, tmp_path).run(once=True) == 1
    assert watch_of(predictor, tmp_path).run(once=True) == 0  # known, not tried again


def test_what_the_super_model_cannot_tell_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_super_model(random_super_model(), tmp_path / "model")
    for name in ("a.png", "b.png"):
        put(tmp_path / "inbox", name)
    assert watch(tmp_path / "model", tmp_path / "inbox", tmp_path / "outbox", once=True, settle=0, poll=0.01) == 0
    assert capsys.readouterr().err.count("cannot tell an image unlike its sites'") == 1


def test_a_mistake_in_the_call_refuses_no_image(tmp_path: Path) -> None:
    save_super_model(random_super_model(), tmp_path / "model")
    image = put(tmp_path / "inbox", "a.png")
    for options, words in (({"mode": "average"}, "use it with evaluate"), ({"gamma": 2.0}, "gamma must lie in")):
        with pytest.raises(FedSuperError, match=words):
            watch(tmp_path / "model", tmp_path / "inbox", tmp_path / "outbox", once=True, **options)
    assert image.exists() and not (tmp_path / "outbox").exists()


def test_links_in_a_circle_and_pipes_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "loop.png").symlink_to("loop.png")
    os.mkfifo(tmp_path / "pipe.png")
    assert Inbox(tmp_path, settle=0).arrivals() == ([], 0)


def test_a_series_that_is_taken_away_again_is_no_problem(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = tmp_path / "inbox" / "series"
    series.mkdir(parents=True)
    (series / "1.dcm").write_bytes(b"1")

    def too_late(folder: Path) -> list[Path]:
        shutil.rmtree(folder, ignore_errors=True)
        return list(folder.iterdir())

    monkeypatch.setattr("fedsuper.inference.watch.watch_folder.images_of_folder", too_late)
    assert watch_of(predictor, tmp_path).run(once=True) == 0 and not rows(tmp_path / "outbox")


def test_one_process_an_outbox(predictor: Predictor, tmp_path: Path) -> None:
    with Outbox(tmp_path / "outbox").owned(), pytest.raises(FedSuperError, match="another"):
        watch_of(predictor, tmp_path).run(once=True)


def test_a_crash_between_record_and_publication_is_completed(predictor: Predictor, tmp_path: Path) -> None:
    put(tmp_path / "inbox", "a.png")
    watch_of(predictor, tmp_path).run(once=True)
    outbox = tmp_path / "outbox"
    os.replace(outbox / "a.png", outbox / HIDDEN / "staged" / "a.png")
    fresh = Outbox(outbox)
    with fresh.owned():
        assert (outbox / "a.png").exists() and len(fresh.done) == 1


def test_a_crash_while_a_record_or_table_is_written_is_forgotten(predictor: Predictor, tmp_path: Path) -> None:
    put(tmp_path / "inbox", "a.png")
    watch_of(predictor, tmp_path).run(once=True)
    outbox = tmp_path / "outbox"
    torn = [outbox / HIDDEN / "records" / f"{PARTIAL}1.json", outbox / f"{PARTIAL}2.csv"]
    for path in torn:
        path.write_bytes(b"")
    assert watch_of(predictor, tmp_path).run(once=True) == 0
    assert not any(path.exists() for path in torn) and len(rows(outbox)) == 1


def test_killed_ten_times_each_mask_exactly_once_and_whole(tmp_path: Path) -> None:
    """100 files, SIGKILL ten times at moments that differ, and still 100 whole masks with one row each."""
    save_super_model(random_super_model(), tmp_path / "model")
    for number in range(100):
        put(tmp_path / "inbox", f"i{number:03d}.png", number)
    code = ("import sys, pathlib, fedsuper.inference.watch.watch_folder as c\n"
            "m, i, o = map(pathlib.Path, sys.argv[1:])\nsys.exit(c.watch(m, i, o, once=True, settle=0, poll=0.01))\n")
    command = [sys.executable, "-c", code, str(tmp_path / "model"), str(tmp_path / "inbox"), str(tmp_path / "outbox")]
    outbox, draw = tmp_path / "outbox", random.Random(0)
    log_path = tmp_path / "log.txt"
    log = log_path.open("a", encoding="utf-8")
    seen: dict[str, int] = {}
    for _ in range(10):
        before = len(list(outbox.glob("i*.png")))
        process = subprocess.Popen(command, stderr=log)
        # Killed after some more masks appeared, at a random moment within the next image.
        while process.poll() is None and len(list(outbox.glob("i*.png"))) < min(before + 6, 100):
            time.sleep(0.002)
        assert process.poll() in (None, 0), log_path.read_text()
        time.sleep(draw.random() * 0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for path in outbox.glob("i*.png"):
            assert seen.setdefault(path.name, path.stat().st_ino) == path.stat().st_ino, "written twice"
            assert Pillow.open(path).size == (40, 40)
    assert subprocess.run(command, stderr=log, timeout=120, check=False).returncode == 0, log_path.read_text()
    log.close()
    assert sorted(path.name for path in outbox.glob("*.png")) == [f"i{number:03d}.png" for number in range(100)]
    assert sorted(row["mask"] for row in rows(outbox)) == [f"i{number:03d}.png" for number in range(100)]
    assert not list((outbox / HIDDEN / "staged").iterdir())
