"""Tensors of one machine's processes by way of files in memory, instead of NVFlare's downloads in pieces.

NVFlare sends a message's tensors after the message: the receiver asks for them piece by piece, each a question and an
answer of its own through several threads on either side. Where server and sites are one machine (the simulator) the
sender writes them into one file of a folder that the launcher made, and the receiver reads that file and removes it.
Bits are the same, and so is everything above: filters, the door and the count of bytes see tensors.

Only a name travels. It is taken inside that folder alone, and what it says of a tensor must fit the file. What is not a
plain tensor in memory, goes to several receivers, or finds no room goes NVFlare's way.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import uuid
from pathlib import Path
from typing import Any

import torch
from nvflare.app_opt.pt.decomposers import TensorDecomposer
from nvflare.fuel.utils.fobs import FOBSContextKey
from nvflare.fuel.utils.fobs.datum import DatumManager

from fedsuper.engines.flare.settings import SHARED, from_environment

FILE, AT, KIND, SHAPE = "file", "at", "kind", "shape"
NAME = re.compile(r"[0-9a-f]{32}")
WRITING, READING, FULL = "fedsuper_writing", "fedsuper_reading", "fedsuper_full"  # of a message's own context
KINDS = {str(kind).removeprefix("torch."): kind for kind in (
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.bool, torch.uint8, torch.int8, torch.int16,
    torch.int32, torch.int64)}


def decomposer() -> TensorDecomposer:
    """How this process sends and reads tensors: through the folder it was given, else as NVFlare does."""
    folder = from_environment(SHARED)
    return SharedTensors(folder) if folder is not None and folder.is_dir() else TensorDecomposer()


class SharedTensors(TensorDecomposer):
    """Hands tensors over in files of `folder`; one message is one file, which its reader removes."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = Path(folder)

    def decompose(self, target: torch.Tensor, manager: DatumManager | None = None) -> Any:
        """Append the tensor to the message's file, and say where."""
        context = manager.fobs_ctx if manager is not None else {}
        if not (context.get(FOBSContextKey.CELL) and (context.get(FOBSContextKey.NUM_RECEIVERS) or 1) == 1
                and _is_plain(target) and not context.get(FULL)):
            return super().decompose(target, manager)
        try:
            file = self._to_write(manager)
            at = file.tell()
            _write(file, _bytes_of(target))
        except OSError:  # no room
            context[FULL] = True
            return super().decompose(target, manager)
        return {FILE: Path(file.name).name, AT: at, KIND: str(target.dtype).removeprefix("torch."),
                SHAPE: list(target.shape)}

    def recompose(self, data: Any, manager: DatumManager | None = None) -> Any:
        """The tensor, in memory of its own."""
        if not isinstance(data, dict) or FILE not in data:
            return super().recompose(data, manager)
        kind, shape, at = KINDS.get(str(data.get(KIND))), data.get(SHAPE), data.get(AT)
        if kind is None or not isinstance(shape, list) or not isinstance(at, int) or not _are_counts([*shape, at]):
            raise ValueError("a shared tensor without a known type, shape and place")
        file = self._to_read(data[FILE], manager)
        size = math.prod(shape) * kind.itemsize
        if at + size > os.fstat(file.fileno()).st_size:
            raise ValueError("a shared tensor that reaches beyond its file")
        tensor = torch.empty(shape, dtype=kind)
        file.seek(at)
        _read(file, _bytes_of(tensor))
        return tensor

    def _to_write(self, manager: Any) -> io.FileIO:
        """The file of the message that is being written."""
        if WRITING not in manager.fobs_ctx:
            path = self.folder / uuid.uuid4().hex
            manager.fobs_ctx[WRITING] = io.FileIO(path, "x", opener=_privately)
            manager.register_post_cb(_close, key=WRITING)
        found: io.FileIO = manager.fobs_ctx[WRITING]
        return found

    def _to_read(self, name: Any, manager: Any) -> io.FileIO:
        """The file of the message that is being read; it has no name from now on."""
        opened: dict[str, io.FileIO] = manager.fobs_ctx.setdefault(READING, {})
        if name not in opened:
            if not isinstance(name, str) or not NAME.fullmatch(name) or opened:
                raise ValueError("a shared tensor in a file that is none of this message's")
            path = self.folder / name
            opened[name] = io.FileIO(path, "r", opener=_privately)
            manager.register_post_cb(_close_all)
            with contextlib.suppress(OSError):
                path.unlink()
        return opened[name]


def _privately(path: str, how: int) -> int:
    return os.open(path, how | os.O_NOFOLLOW, 0o600)


def _write(file: io.FileIO, left: memoryview) -> None:
    while left:
        left = left[file.write(left) or 0 :]


def _read(file: io.FileIO, left: memoryview) -> None:
    while left:
        count = file.readinto(left)
        if not count:
            raise ValueError("a shared tensor whose file was cut short")
        left = left[count:]


def _close(manager: DatumManager, key: str) -> None:
    manager.fobs_ctx.pop(key).close()


def _close_all(manager: DatumManager) -> None:
    for file in manager.fobs_ctx.pop(READING).values():
        file.close()


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized \
        and tensor.is_contiguous() and not tensor.requires_grad and tensor.dtype in KINDS.values()


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    return tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else memoryview(b"")


def _are_counts(values: list[Any]) -> bool:
    return all(type(value) is int and value >= 0 for value in values)
