"""Prepared samples kept on disk, so that a restart or another method does not decode the same files again."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fedsuper.data.preprocess import Preprocess
from fedsuper.data.task import Task
from fedsuper.files import atomic_write

VERSION = 1  # raise when preparation changes its result


class SampleCache:
    """One safetensors file per item, named by what the item's content depends on; the least recently used go first."""

    def __init__(self, folder: Path, limit_mb: int):
        self.folder = folder
        self.limit = limit_mb * 2**20

    def key(self, image: Path, label: Path, task: Task, preprocess: Preprocess) -> str:
        """A name that changes with the files (path, size, time) and with every setting that shapes the result."""
        files = [[str(path.absolute()), *_stamp(path)] for path in (image, label)]
        facts = [VERSION, files, task.to_json(), preprocess.to_json()]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def get(self, key: str) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The entry, or None where it is absent or torn."""
        path = self._path(key)
        try:
            entry = load_file(path)
            os.utime(path)
            return entry["images"], entry["masks"]
        except (OSError, SafetensorError, KeyError):
            return None

    def put(self, key: str, images: torch.Tensor, masks: torch.Tensor) -> None:
        """Keep an entry, unless it exceeds the limit alone or the disk is full: a cache may fail, a run may not."""
        if images.nbytes + masks.nbytes > self.limit:
            return
        entry = {"images": images.contiguous(), "masks": masks.contiguous()}
        with suppress(OSError, SafetensorError):
            atomic_write(self._path(key), lambda temporary: save_file(entry, temporary))

    def trim(self) -> None:
        """Delete the least recently used entries until the folder is within its limit."""
        entries = []
        for path in self.folder.glob("*.safetensors"):
            try:
                stat = path.stat()
            except OSError:  # another process trimmed it first
                continue
            entries.append((stat.st_mtime_ns, path.name, stat.st_size, path))
        total = sum(size for _, _, size, _ in entries)
        for _, _, size, path in sorted(entries):
            if total <= self.limit:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"


def _stamp(path: Path) -> tuple[int, int]:
    """Size and time of a file with its voxel file, if that is another, or of all files of a DICOM folder."""
    files = sorted(path.iterdir()) if path.is_dir() else [path, *path.parent.glob(f"{glob.escape(path.stem)}.*raw")]
    stats = [file.stat() for file in files]
    return sum(stat.st_size for stat in stats), max((stat.st_mtime_ns for stat in stats), default=0)
