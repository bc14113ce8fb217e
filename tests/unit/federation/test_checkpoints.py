"""The server's checkpoints on disk."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest
import torch

from fedsuper import files
from fedsuper.config import FederationConfig, Study
from fedsuper.data.task import Task
from fedsuper.errors import FedSuperError
from fedsuper.federation import checkpoints
from fedsuper.federation.checkpoints import MODELS, Resume, RoundWriter, load_latest, save_round
from fedsuper.methods.protocol.server import Server


def server(study: Study, number: int) -> Server:
    task = Task("retina", 3, {"disc": (1,)})
    return Server(study, task, ["a"], {"a": 1}, round=number, models={"global": {"w": torch.full((2,), float(number))}})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def loaded(folder: Path, study: Study, number: int | None = None) -> int:
    found = load_latest(folder, study, number)
    assert found is not None
    return found.round


def test_the_last_rounds_are_kept_and_any_of_them_can_be_gone_back_to(tiny_study: Study, tmp_path: Path) -> None:
    study = tiny_study.model_copy(update={"federation": FederationConfig(keep_rounds=2)})
    for number in (1, 2, 3):
        save_round(tmp_path, server(study, number))
    assert names(tmp_path) == ["round-00002.safetensors", "round-00003.safetensors"]
    assert loaded(tmp_path, study) == 3 and loaded(tmp_path, study, 2) == 2
    with pytest.raises(FedSuperError, match=r"--from-round 1: no checkpoint of this round \(there: 2, 3\)"):
        load_latest(tmp_path, study, 1)


def test_a_users_own_copy_is_neither_read_nor_removed(tiny_study: Study, tmp_path: Path) -> None:
    copy = tmp_path / "round-before the change.safetensors"
    copy.write_bytes(b"mine")
    for number in (1, 2):
        save_round(tmp_path, server(tiny_study, number))
    assert copy.exists() and loaded(tmp_path, tiny_study) == 2


def test_a_run_without_a_checkpoint_has_nothing_to_go_on_from(tiny_study: Study, tmp_path: Path) -> None:
    assert load_latest(tmp_path / "new", tiny_study) is None


def test_an_altered_value_is_noticed_like_an_altered_weight(tiny_study: Study, tmp_path: Path) -> None:
    save_round(tmp_path, server(tiny_study, 1))
    path = tmp_path / "round-00001.safetensors"
    written = path.read_bytes()
    altered = written.replace(b'\\"samples\\": {\\"a\\": 1}', b'\\"samples\\": {\\"a\\": 9}')
    assert altered != written
    path.write_bytes(altered)
    with pytest.raises(FedSuperError, match="digest"):
        load_latest(tmp_path, tiny_study)


def test_how_to_resume_travels_in_a_job() -> None:
    for going in (Resume(), Resume(3), Resume(0, ("a", "b")), Resume(None, ("a",))):
        assert Resume.of(going.to_json()) == going == Resume.of(going)
    assert Resume.of(False) is None and Resume.of(True) == Resume()


def test_a_new_run_in_an_old_folder_does_not_resume_the_old_one(tiny_study: Study, tmp_path: Path) -> None:
    """Sorting by age alone would keep rounds 8 and 9 of the abandoned run and drop the new ones."""
    for number in (8, 9):
        save_round(tmp_path, server(tiny_study.with_seed(7), number))
    save_round(tmp_path, server(tiny_study, 1))
    assert names(tmp_path) == ["round-00001.safetensors"]
    assert loaded(tmp_path, tiny_study) == 1


class FullDisk:
    """A disk without room until `room` is set; `noticed` tells that a write was tried in vain."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = threading.Event()
        self.noticed = threading.Event()
        self._write = checkpoints.save_models
        monkeypatch.setattr(checkpoints, "save_models", self.write)
        monkeypatch.setattr(files, "LOOK_FOR_ROOM", 0.001)

    def write(self, path: Path, *what: object) -> None:
        if not self.room.is_set():
            self.noticed.set()
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        self._write(path, *what)


def test_a_full_disk_is_waited_out(tiny_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_round(tmp_path, server(tiny_study, 1))
    disk, notes = FullDisk(monkeypatch), []
    with RoundWriter(tmp_path, room=600, note=notes.append) as writer:
        writer.save(server(tiny_study, 2))
        assert disk.noticed.wait(60) and names(tmp_path) == ["round-00001.safetensors"]
        disk.room.set()
        writer.save(server(tiny_study, 3))
    assert loaded(tmp_path, tiny_study, 2) == 2 and loaded(tmp_path, tiny_study) == 3
    assert notes == ["warning: round-00002.safetensors cannot be written (no space is left on the disk); the study "
                     "waits for room, 600 s at most", "there is room on the disk again"]


def test_a_disk_that_stays_full_ends_the_run_and_one_that_is_left_is_not_waited_for(
    tiny_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FullDisk(monkeypatch)
    with pytest.raises(OSError, match="No space left"), RoundWriter(tmp_path, 0.01, lambda text: None) as writer:
        writer.save(server(tiny_study, 1))
    with pytest.raises(KeyboardInterrupt), RoundWriter(tmp_path, 600, lambda text: None) as writer:
        writer.save(server(tiny_study, 1))
        raise KeyboardInterrupt
    assert names(tmp_path) == [] and len(names(tmp_path / MODELS)) == 1
