"""Samples that rest in a file: a site with more slices than memory trains at the same speed.

Prepared images (float32, so that not a bit differs) and masks (uint8) lie one after the other in two files of the
site's state folder. They are prepared once, by several threads (decoders and torch release the interpreter), and mapped
into memory; what a batch does not need is not held: after `HELD` bytes were read, their pages are given back to the
kernel, which may keep them cached or not.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
import torch

from fedsuper.data.prepared.samples import Pair, Samples
from fedsuper.display import counted
from fedsuper.files import atomic_write, atomic_write_json

HELD = 512 * 2**20  # bytes that may be mapped at a time
IMAGES, MASKS, INDEX = "images.float32", "masks.uint8", "index.json"
T = TypeVar("T")
R = TypeVar("R")


@dataclass
class MappedSamples(Samples):
    """As `Samples`, with tensors that lie in files."""

    maps: list[mmap.mmap] = field(default_factory=list)
    read: int = 0

    def batch(self, index: torch.Tensor) -> Pair:
        """Copies of these samples; what was read for them is soon given back."""
        return self._counted(super().batch(index))

    def parts(self, size: int) -> Iterator[Pair]:
        """All samples in order, `size` at a time."""
        for part in super().parts(size):
            yield part
            self._counted(part)

    def _counted(self, pair: Pair) -> Pair:
        self.read += sum(tensor.nbytes for tensor in pair)
        if self.read > HELD:
            self.read = 0
            for each in self.maps:
                each.madvise(mmap.MADV_DONTNEED)
        return pair


def mapped_samples(folder: Path, key: str, prepare: Callable[[], Iterable[Samples]]) -> MappedSamples:
    """The samples that lie in `folder` under `key`, prepared and written there first where they do not."""
    place = folder / hashlib.sha256(key.encode()).hexdigest()[:16]
    if not (place / INDEX).exists():
        _write(place, prepare())
    return open_samples(place)


def _write(place: Path, loaded: Iterable[Samples]) -> None:
    """One pass over what is prepared; the index comes last, so that a torn pair of files is never taken for whole."""
    facts: dict[str, list[object]] = {"names": [], "cases": [], "shapes": []}

    def fill(images: BinaryIO, masks: BinaryIO) -> None:
        for part in loaded:
            for file, tensor in ((images, part.images), (masks, part.masks)):
                file.write(tensor.contiguous().numpy().data)
            facts["names"] += part.names
            facts["cases"] += part.cases
            facts["shapes"] = [list(part.images.shape[1:]), list(part.masks.shape[1:])]

    def both(temporary: Path) -> None:
        with open(temporary, "wb") as images:
            atomic_write(place / MASKS, lambda other: _into(other, lambda masks: fill(images, masks)))

    atomic_write(place / IMAGES, both)
    atomic_write_json(place / INDEX, facts)


def _into(path: Path, fill: Callable[[BinaryIO], None]) -> None:
    with open(path, "wb") as file:
        fill(file)


def open_samples(place: Path) -> MappedSamples:
    """The samples whose files lie in `place`."""
    facts = json.loads((place / INDEX).read_text(encoding="utf-8"))
    count = len(facts["names"])
    tensors, maps = [], []
    for name, dtype, shape in zip((IMAGES, MASKS), (np.float32, np.uint8), facts["shapes"], strict=True):
        with open(place / name, "rb") as file:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # private: writing to it changes no file
        maps.append(view)
        tensors.append(torch.from_numpy(np.frombuffer(view, dtype).reshape(count, *shape)))
    return MappedSamples(tensors[0], tensors[1], facts["names"], facts["cases"], maps)


def side_by_side(work: Callable[[T], R], items: list[T], title: str) -> Iterator[R]:
    """`work` of every item in order, some of them ahead in threads; told how far it is."""
    threads = os.cpu_count() or 1
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads) as pool, counted(title, "images") as show:
        for number, item in enumerate(items):
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
            show(number + 1 - len(waiting), len(items))
        while waiting:
            yield waiting.popleft().result()
            show(len(items) - len(waiting), len(items))
