"""What clinicians read off a mask, with its error against the label: areas, volumes, the vertical cup-to-disc ratio.

- `<region>_volume_ml`: voxels times their volume, for volumes with a spacing
- `<region>_area_mm2` or `<region>_area_px`: of single pictures, with or without a spacing
- `vertical_cup_to_disc_ratio`: rows the cup spans over rows the disc spans, for tasks with regions `cup` and `disc`;
  0 for an empty cup, undefined for an empty disc

What is undefined is left out of the means, and counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsuper.evaluation.metrics.boundaries import Spacing

RATIO = "vertical_cup_to_disc_ratio"
Masks = Mapping[str, NDArray[np.bool_]]  # region -> [Z, H, W]


@dataclass(frozen=True)
class Measured:
    """One number read off the predicted mask and off the label; NaN where it is undefined."""

    predicted: float
    true: float

    @property
    def error(self) -> float:
        """predicted - true."""
        return self.predicted - self.true


def measure(predicted: Masks, true: Masks, spacing: Spacing | None) -> dict[str, Measured]:
    """Every measurement that these regions allow."""
    found = {}
    for region, mask in true.items():
        name, factor = _size(region, mask.shape, spacing)
        found[name] = Measured(float(predicted[region].sum()) * factor, float(mask.sum()) * factor)
    if {"cup", "disc"} <= set(true):
        found[RATIO] = Measured(cup_to_disc(predicted), cup_to_disc(true))
    return found


def cup_to_disc(masks: Masks) -> float:
    """The vertical cup-to-disc ratio; NaN without a disc."""
    cup, disc = (_rows_spanned(masks[region]) for region in ("cup", "disc"))
    return cup / disc if disc else math.nan


def summarize_errors(rows: Sequence[Mapping[str, Measured]]) -> dict[str, dict[str, float]]:
    """Per measurement: mean absolute error, bias (mean error) and its standard deviation, and how many there were."""
    names = dict.fromkeys(name for row in rows for name in row)
    summary = {}
    for name in names:
        errors = np.array([row[name].error for row in rows if name in row], dtype=float)
        known = errors[~np.isnan(errors)]
        if len(known):
            spread = float(known.std(ddof=1)) if len(known) > 1 else 0.0
            means = {"mean_absolute_error": float(np.abs(known).mean()), "bias": float(known.mean()), "std": spread}
            summary[name] = means | {"n": len(known), "undefined": len(errors) - len(known)}
    return summary


def _size(region: str, shape: Sequence[int], spacing: Spacing | None) -> tuple[str, float]:
    """A measurement's name, and what a voxel counts for in it."""
    if spacing is None:
        return f"{region}_area_px", 1.0
    if shape[0] > 1:
        return f"{region}_volume_ml", math.prod(spacing) / 1000
    return f"{region}_area_mm2", spacing[1] * spacing[2]


def _rows_spanned(mask: NDArray[np.bool_]) -> int:
    rows = np.flatnonzero(mask.any(axis=(0, 2)))
    return int(rows[-1] - rows[0] + 1) if len(rows) else 0
