"""The shape that Tent and test-time training share: adapt to an image, then predict it."""

from __future__ import annotations

from typing import ClassVar, Protocol

import torch

from fedsuper.inference.modes.base import Mode, Outcome
from fedsuper.inference.slice_batch import SliceBatch


class Adapter(Protocol):
    """Something that changes a net for some slices and predicts them."""

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Adapt on `images` `[Z, C, S, S]`, then return their logits on the CPU."""
        ...


class ImageByImage(Mode):
    """Hands the adapter one image after the other, a volume in portions of `eval_batch_size` slices."""

    adapts: ClassVar[bool] = True
    adapter: Adapter

    def predict(self, batch: SliceBatch) -> Outcome:
        size = self.predictor.compute.eval_batch_size
        parts = [part for case in batch.images.split(batch.sizes) for part in case.split(size)]
        logits = torch.cat([self.adapter.logits(part) for part in parts])
        return Outcome(logits.sigmoid(), [self.name] * len(batch))
