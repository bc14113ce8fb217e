"""The largest piece of every region, where validation images say that it helps (nnU-Net's rule).

An organ is one piece; islands far from it are mistakes, most of the time. A region is cleaned only if that lifts the
sites' mean validation Dice: what is scattered by nature (lesions, vessels) is left as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

# Of the sites' mean Dice: a gain below this is a few pixels of one image.
LEAST_GAIN = 1e-4


def islands(mask: np.ndarray) -> np.ndarray:
    """Where a mask `[Z, H, W]` is set outside its largest piece; pixels touch along edges, slices face to face.

    Of pieces of equal size the first in reading order stays.
    """
    from scipy.ndimage import label

    pieces, count = label(mask)
    if count < 2:
        return np.zeros(mask.shape, dtype=bool)
    largest = 1 + int(np.bincount(pieces.ravel())[1:].argmax())
    return np.asarray((pieces > 0) & (pieces != largest))


def largest_pieces(probabilities: torch.Tensor, regions: Sequence[int]) -> torch.Tensor:
    """Probabilities `[Z, R, H, W]` of one image without the islands of these regions; all other values stay."""
    if not regions:
        return probabilities
    cleaned = probabilities.clone()
    for region in regions:
        away = islands((probabilities[:, region] >= 0.5).numpy())
        cleaned[:, region][torch.from_numpy(away)] = 0
    return cleaned


def worth_cleaning(told: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The regions whose mean Dice over sites gains by it; a site's answer has `raw`, `one_piece` and `images`."""
    if not told:
        return []
    regions = list(next(iter(told.values()))["raw"])
    gains = {
        region: math.fsum((site["one_piece"][region] - site["raw"][region]) / site["images"] for site in told.values())
        for region in regions
    }
    return [region for region, gain in gains.items() if gain / len(told) > LEAST_GAIN]
