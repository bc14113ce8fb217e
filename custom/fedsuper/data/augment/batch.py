"""Random variations of a training batch, all samples at once, on the device where the batch lies."""

from __future__ import annotations

import torch

from fedsuper.data.augment.intensity import PARTS, sharpness
from fedsuper.data.augment.settings import AugmentSettings
from fedsuper.data.augment.spatial import warp


def augment_batch(
    images: torch.Tensor, masks: torch.Tensor, config: AugmentSettings, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Vary each sample of images `[B, C, S, S]` and masks `[B, R, S, S]`; the inputs are left as they are.

    All numbers are drawn on the CPU from `generator` and moved then, so they are the same on every device. A part that
    is switched off draws nothing: the others then see the same numbers as if it did not exist.
    """
    if config.flip or config.flip_vertical or config.rotation or config.scale or config.elastic:
        images, masks = warp(images, masks, config, generator)
    if config.blur or config.sharpen:
        images = sharpness(images, config.blur, config.sharpen, generator)
    for name, part in PARTS.items():
        amount = getattr(config, name)
        if amount:
            images = part(images, amount, generator)
    return images, masks
