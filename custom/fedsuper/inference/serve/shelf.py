"""What the page remembers: the last few images and their answers, in memory only, bounded by count and by bytes."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from fedsuper.data.images.io import Image
from fedsuper.errors import FedSuperError
from fedsuper.inference.serve.answers import Answer

MOST_IMAGES = 8
MOST_BYTES = 2 * 10**9


@dataclass
class Shelved:
    """An uploaded image, the name it came with, and the answers asked for so far, by mode."""

    name: str
    image: Image
    answers: dict[str, Answer] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        arrays: list[np.ndarray] = [self.image.array, *(answer.labels for answer in self.answers.values())]
        return sum(array.nbytes for array in arrays)

    def answer(self, mode: str) -> Answer:
        """The answer of a mode that was asked before."""
        if mode not in self.answers:
            raise FedSuperError(f"{self.name}: was not predicted with mode '{mode[:80]}' yet; ask for it first")
        return self.answers[mode]


class Shelf:
    """Images by a random key; the one not looked at for longest makes room. Safe to use from several threads."""

    def __init__(self, most_images: int = MOST_IMAGES, most_bytes: int = MOST_BYTES) -> None:
        self._items: OrderedDict[str, Shelved] = OrderedDict()
        self._lock = threading.Lock()
        self.most_images = most_images
        self.most_bytes = most_bytes

    def put(self, item: Shelved) -> str:
        """Keep an item; returns its key."""
        key = secrets.token_hex(8)
        with self._lock:
            self._items[key] = item
            self._make_room()
        return key

    def get(self, key: str) -> Shelved:
        """The item under a key."""
        with self._lock:
            if key not in self._items:
                raise FedSuperError("this image is no longer here; drop it again")
            self._items.move_to_end(key)
            self._make_room()
            return self._items[key]

    def __len__(self) -> int:
        return len(self._items)

    def _make_room(self) -> None:
        while len(self._items) > 1 and (
            len(self._items) > self.most_images or sum(item.bytes for item in self._items.values()) > self.most_bytes
        ):
            self._items.popitem(last=False)
