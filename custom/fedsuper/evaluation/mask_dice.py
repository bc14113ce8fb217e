"""Label maps as regions, and the Dice of a mask as it was written against the true one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from fedsuper.core.metrics import dice_scores


def label_regions(labels: NDArray[np.uint8], regions: Mapping[str, tuple[int, ...]]) -> torch.Tensor:
    """Boolean masks `[R, Z, H, W]` of a label map, by table look-up."""
    table = np.zeros((len(regions), 256), dtype=bool)
    for row, values in enumerate(regions.values()):
        table[row, list(values)] = True
    return torch.from_numpy(np.stack([one[labels] for one in table]))


def mask_dice(
    mask: NDArray[np.uint8], label: NDArray[np.uint8], regions: Mapping[str, tuple[int, ...]]
) -> dict[str, float]:
    """Dice by region of two label maps `[Z, H, W]`, all slices of an image together."""
    scores = dice_scores(label_regions(mask, regions)[None], label_regions(label, regions)[None])[0]
    return dict(zip(regions, scores.tolist(), strict=True))
