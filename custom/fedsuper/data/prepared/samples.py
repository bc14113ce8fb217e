"""A site's samples, every slice one sample, ready for the training loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass
class Samples:
    """Images float32 `[N, C, S, S]` and region masks uint8 `[N, R, S, S]`.

    `names` are the items' names; the slices of a volume are `name#0000`, `name#0001`, ...; `cases` the patients.
    """

    images: torch.Tensor
    masks: torch.Tensor
    names: list[str]
    cases: list[str]

    def __len__(self) -> int:
        return len(self.names)

    def batch(self, index: torch.Tensor) -> Pair:
        """Copies of the samples with these numbers."""
        return self.images[index], self.masks[index]

    def parts(self, size: int) -> Iterator[Pair]:
        """All samples in order, `size` at a time; valid until the next is asked for."""
        yield from zip(self.images.split(size), self.masks.split(size), strict=True)
