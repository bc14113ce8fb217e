"""Models at rest on disk (`federation.models: disk`): the same bits, in files that nobody has to clean up."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from paper_sites import SITES, PaperSites, bits, federate, paper_study

from fedsuper.bench import server_aggregation
from fedsuper.core.aggregate import soft_pull
from fedsuper.engines.in_process import LocalExchange
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import TRAIN, Message, SiteFailure
from fedsuper.federation.resting import Disk
from fedsuper.methods import create_method


class Counted(Disk):
    """Remembers where the tensors are that it made, and how many files they took."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.places: set[int] = set()
        self.files = 0

    def blank(self, shape: Any, kind: torch.dtype) -> torch.Tensor:
        made = super().blank(shape, kind)
        self.places.add(made.data_ptr())
        return made

    def _file(self, size: int) -> Any:
        self.files += 1
        return super()._file(size)


def test_many_tensors_share_a_file_and_no_memory(tmp_path: Path) -> None:
    disk = Counted(tmp_path)
    made = [disk.blank((number % 7, 3), torch.float32).fill_(number) for number in range(500)]
    assert disk.files == 1 and all(bool((tensor == number).all()) for number, tensor in enumerate(made))
    assert disk.blank((), torch.int64).fill_(5).item() == 5
    assert not list(tmp_path.iterdir()), "files without a name leave nothing behind"
    large = disk.blank((20_000_000,), torch.float32)
    assert disk.files == 2 and large.untyped_storage().nbytes() == large.nbytes, "a checkpoint need not copy it"


def test_what_is_no_plain_tensor_is_left_to_the_door(tmp_path: Path) -> None:
    junk: dict[str, Any] = {"a": [1, 2], "b": torch.eye(3).to_sparse(), "c": None}
    disk = Disk(tmp_path)
    assert disk.rest(junk) == junk and disk.rest("nonsense") == "nonsense"  # type: ignore[arg-type,comparison-overlap]


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(FedSuperError, match="no room for 64 MB of models .No space left on device.; free"):
        Disk(tmp_path).blank((2,), torch.float32)


def test_an_aggregation_makes_its_models_on_disk_with_the_same_bits(tmp_path: Path) -> None:
    server, updates = server_aggregation.round_of({"channels": [2, 4]}, 4)
    method, disk = create_method(server.study), Counted(tmp_path)
    here = method.aggregate(server, updates)
    with disk.in_force():
        there = method.aggregate(server, updates)
        alone = soft_pull({"a": updates["site-000"].models["personal"]}, 0.7)
    for key, state in (there | alone).items():
        assert all(tensor.data_ptr() in disk.places for tensor in state.values()), key
    assert all(torch.equal(tensor, here[key][name]) for key, state in there.items() for name, tensor in state.items())


class Arriving(PaperSites):
    """An engine that lays every answer down as it arrives."""

    rest = staticmethod(lambda tensors: tensors)

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | SiteFailure]:
        replies = super().__call__(task, messages, timeout)
        for reply in replies.values():
            if isinstance(reply, Message):
                reply.models = {role: self.rest(state) for role, state in reply.models.items()}
        return replies


@pytest.mark.parametrize("robust", ["none", "clip", "median"])
def test_a_study_at_rest_has_the_bits_of_one_in_memory_and_can_be_resumed(robust: str, tmp_path: Path) -> None:
    def study(models: str, rounds: int) -> Any:
        return paper_study("fedsm", rounds=rounds, federation={"models": models, "robust": robust})

    memory, _ = federate(PaperSites(study("memory", 3)), tmp_path / "memory")
    federate(Arriving(study("disk", 2)), tmp_path / "disk")
    disk, _ = federate(Arriving(study("disk", 3)), tmp_path / "disk", resume=True)
    assert bits(disk) == bits(memory)


class Stub:
    def handle(self, task: str, message: Message) -> Message:
        return Message({"global": {"w": torch.ones(3)}}, {"task": task})


def test_the_engine_in_this_process_lays_answers_down(tmp_path: Path) -> None:
    exchange = LocalExchange(dict.fromkeys(SITES, Stub()))  # type: ignore[arg-type]
    disk = Counted(tmp_path)
    exchange.rest = disk.rest
    for reply in exchange(TRAIN, dict.fromkeys(SITES, Message()), 1.0).values():
        assert isinstance(reply, Message) and reply.models["global"]["w"].data_ptr() in disk.places
    assert len(disk.places) == len(SITES)
