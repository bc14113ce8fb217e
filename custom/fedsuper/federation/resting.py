"""Models at rest on disk (`federation.models: disk`): a server of many sites needs memory for a few models only.

What a round holds of K sites (their answers, their personalized models, the best so far, what 16 bits left out) lies in
mapped files of the server's folder, which have no name and go when nobody holds them: they need no cleaning up, and a
checkpoint remains the only thing to resume from. The kernel keeps in memory what there is room for, and sums run over
blocks (`core.aggregate`), so what must be in memory at the same time does not grow with K.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from fedsuper.config.sections import FederationConfig
from fedsuper.core.state import room_for_models
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import Exchange

CHUNK = 64_000_000  # bytes of one file: many entries share one, since a process may map only so many
ALIGNED = 64  # bytes


class Disk:
    """Room for tensors in files without a name; `folder` says on which disk. Several threads may ask for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._lock = threading.Lock()
        self._chunk: mmap.mmap | None = None
        self._used = 0

    def blank(self, shape: Sequence[int], kind: torch.dtype) -> torch.Tensor:
        """An unwritten tensor on disk; its room is free again when the last tensor of its file is gone."""
        count = math.prod(shape)
        size = count * kind.itemsize
        if not size:
            return torch.empty(tuple(shape), dtype=kind)
        with self._lock:
            if self._chunk is None or self._used + size > len(self._chunk):
                self._chunk, self._used = self._file(max(CHUNK, size)), 0
            chunk, start = self._chunk, self._used
            self._used += -(-size // ALIGNED) * ALIGNED
        return torch.frombuffer(chunk, dtype=kind, count=count, offset=start).reshape(tuple(shape))

    def rest(self, tensors: dict[str, Any]) -> dict[str, Any]:
        """The tensors of an answer, on disk; whatever else a site sent is left for the door to refuse."""
        return {name: self.blank(value.shape, value.dtype).copy_(value) if _is_plain(value) else value
                for name, value in tensors.items()} if isinstance(tensors, dict) else tensors

    def in_force(self) -> contextlib.AbstractContextManager[None]:
        """Within it, what the server makes of models rests here."""
        return room_for_models(self.blank)

    def _file(self, size: int) -> mmap.mmap:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error now, not a signal later
                file.truncate(size)
                return mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise FedSuperError(f"{self.folder}: no room for {size / 1e6:.0f} MB of models ({error.strerror}); free "
                                "some, or set federation.models: memory") from None


def _is_plain(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and value.device.type == "cpu" \
        and not value.is_quantized


def resting(config: FederationConfig, folder: Path, exchange: Exchange) -> contextlib.AbstractContextManager[None]:
    """Within it, what arrives through `exchange` and what the server makes of it rests where the study says."""
    if config.models != "disk":
        return contextlib.nullcontext()
    disk = Disk(folder)
    exchange.rest = disk.rest
    return disk.in_force()
