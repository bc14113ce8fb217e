"""Distances between the boundaries of two masks, in millimeters where the image has a spacing, else in pixels.

With d(a, B) the distance of a boundary voxel a of mask A to the nearest boundary voxel of B (edges and distances as
MONAI finds them), over all voxels of both boundaries:

- HD95: the larger of the 95th percentiles of d(a, B) and of d(b, A)
- ASSD: the mean of all d(a, B) and d(b, A) together
- surface Dice: the share of all boundary voxels that lie within a tolerance of the other boundary

Two empty masks agree: distances 0, surface Dice 1. If one is empty there is no distance; it then counts as the longest
the image has room for, its diagonal, and surface Dice as 0: a method must not gain by answering nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

TOLERANCE_MM = 2.0
TOLERANCE_SHARE = 0.01  # of the image's longer side, where there is no spacing
MILLIMETERS, PIXELS = "mm", "px"

Spacing = tuple[float, float, float]  # between neighbors along Z, H, W


@dataclass(frozen=True)
class Boundary:
    """How well two boundaries agree."""

    hd95: float
    assd: float
    surface_dice: float


def unit_of(spacing: Spacing | None) -> str:
    """The unit of distances."""
    return PIXELS if spacing is None else MILLIMETERS


def tolerance_of(shape: Sequence[int], spacing: Spacing | None) -> float:
    """How far apart boundaries may lie and still agree: 2 mm, or 1% of the image's longer side."""
    return TOLERANCE_SHARE * max(shape[-2:]) if spacing is None else TOLERANCE_MM


def boundary_scores(predicted: NDArray[np.bool_], true: NDArray[np.bool_], spacing: Spacing | None) -> Boundary:
    """Compare two masks `[Z, H, W]`; a single slice is compared as the picture it is."""
    from monai.metrics.utils import get_edge_surface_distance

    sides = spacing or (1.0, 1.0, 1.0)
    if not predicted.any() and not true.any():
        return Boundary(0.0, 0.0, 1.0)
    if not predicted.any() or not true.any():
        present = [axis for axis in range(3) if axis or predicted.shape[0] > 1]
        diagonal = float(np.linalg.norm([predicted.shape[axis] * sides[axis] for axis in present]))
        return Boundary(diagonal, diagonal, 0.0)
    flat = predicted.shape[0] == 1
    ours, theirs = (torch.from_numpy(np.ascontiguousarray(mask[0] if flat else mask)) for mask in (predicted, true))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # MONAI warns of a default of its own
        _, ways, _ = get_edge_surface_distance(ours, theirs, spacing=sides[1:] if flat else sides, symmetric=True)
    both = torch.cat(ways)
    hd95 = max(float(torch.quantile(distances, 0.95)) for distances in ways)
    near = (both <= tolerance_of(predicted.shape, spacing)).double().mean()
    return Boundary(hd95, float(both.mean()), float(near))
