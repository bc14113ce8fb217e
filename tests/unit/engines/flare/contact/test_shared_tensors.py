"""Tensors through a folder: the same bits, one file a message that its reader removes, and nothing from elsewhere."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import torch
from nvflare.app_opt.pt.decomposers import TensorDecomposer
from nvflare.fuel.utils.fobs import FOBSContextKey
from nvflare.fuel.utils.fobs.datum import DatumManager

from fedsuper.engines.flare.contact import shared_tensors
from fedsuper.engines.flare.contact.shared_tensors import SharedTensors, decomposer
from fedsuper.engines.flare.settings import SHARED

TENSORS = [
    torch.tensor([1.5, float("nan"), float("inf"), -0.0]), torch.randn(3, 2, 5), torch.tensor(7), torch.empty(0, 4),
    torch.randn(9).bfloat16(), torch.randn(4).half(), torch.randn(2).double(), torch.tensor([True, False]),
    torch.arange(5), torch.arange(5, dtype=torch.uint8),
]


def message(**context: Any) -> DatumManager:
    return DatumManager(fobs_ctx={FOBSContextKey.CELL: object()} | context)


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def sent(shared: SharedTensors, tensors: list[torch.Tensor]) -> list[Any]:
    manager = message()
    said = [shared.decompose(tensor, manager) for tensor in tensors]
    manager.post_process()
    return said


def test_every_bit_arrives_in_memory_of_its_own_and_the_file_goes(tmp_path: Path) -> None:
    said = sent(SharedTensors(tmp_path), TENSORS)
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [sum(tensor.nbytes for tensor in TENSORS)]
    manager = message()
    came = [SharedTensors(tmp_path).recompose(one, manager) for one in said]
    manager.post_process()
    for before, after in zip(TENSORS, came, strict=True):
        assert (before.dtype, before.shape, bits(before)) == (after.dtype, after.shape, bits(after))
        assert after.untyped_storage().nbytes() == after.nbytes
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("change", [
    {"file": "../secret"}, {"file": "/etc/hostname"}, {"file": "f" * 32}, {"file": 3}, {"at": 16}, {"at": -4},
    {"at": "0"}, {"shape": [2**40]}, {"shape": [-1, -1]}, {"shape": [1.0]}, {"shape": None}, {"kind": "object"},
    {"kind": None}, {"at": True},
])
def test_a_handle_that_does_not_fit_its_file_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    """Nothing beyond the folder is opened or removed, and no memory is taken for what is not there."""
    (tmp_path / "secret").write_bytes(bytes(16))
    folder = tmp_path / "shared"
    folder.mkdir()
    (said,) = sent(SharedTensors(folder), [torch.zeros(4)])
    with pytest.raises((ValueError, OSError)):
        SharedTensors(folder).recompose(said | change, message())
    assert (tmp_path / "secret").exists()


def test_a_link_is_not_followed_and_a_second_file_is_none_of_the_messages(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(16))
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / ("a" * 32)).symlink_to(tmp_path / "secret")
    shared = SharedTensors(folder)
    (one,), (other,) = sent(shared, [torch.zeros(4)]), sent(shared, [torch.ones(4)])
    with pytest.raises(OSError):
        shared.recompose(one | {"file": "a" * 32}, message())
    manager = message()
    shared.recompose(one, manager)
    with pytest.raises(ValueError, match="none of this message"):
        shared.recompose(other, manager)


def test_what_was_cut_short_is_refused(tmp_path: Path) -> None:
    (said,) = sent(SharedTensors(tmp_path), [torch.zeros(4)])
    with open(tmp_path / said["file"], "r+b") as file:
        file.truncate(7)
    with pytest.raises(ValueError, match="beyond its file"):
        SharedTensors(tmp_path).recompose(said, message())


def test_without_room_the_rest_goes_nvflares_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Part of a message may be written already; each tensor says itself where it is."""
    write = shared_tensors._write

    def small_disk(file: Any, left: memoryview) -> None:
        if file.tell() + len(left) > 20:
            file.write(left[:3])
            raise OSError(errno.ENOSPC, "full")
        write(file, left)

    monkeypatch.setattr(shared_tensors, "_write", small_disk)
    shared, manager = SharedTensors(tmp_path), message()
    said = [shared.decompose(torch.full((size,), float(size)), manager) for size in (4, 2, 1)]
    assert ["file" in one for one in said] == [True, False, False]
    assert said[1] == {"type": "ref", "data": "T0"} and said[2] == {"type": "ref", "data": "T1"}
    assert torch.equal(shared.recompose(said[0], message()), torch.full((4,), 4.0))


@pytest.mark.parametrize("manager", [DatumManager(), message(**{FOBSContextKey.NUM_RECEIVERS: 2})])
def test_what_is_kept_or_has_several_readers_names_no_file(tmp_path: Path, manager: DatumManager) -> None:
    assert "file" not in SharedTensors(tmp_path).decompose(torch.zeros(4), manager)
    assert list(tmp_path.iterdir()) == []


def test_only_processes_that_were_given_a_folder_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SHARED, raising=False)
    assert type(decomposer()) is TensorDecomposer
    monkeypatch.setenv(SHARED, str(tmp_path / "gone"))
    assert type(decomposer()) is TensorDecomposer
    monkeypatch.setenv(SHARED, str(tmp_path))
    assert type(decomposer()) is SharedTensors
