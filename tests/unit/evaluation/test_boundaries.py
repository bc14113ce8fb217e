"""Boundary distances agree with MONAI's own functions and with what can be counted by hand; empty masks by rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from monai.metrics import compute_average_surface_distance, compute_hausdorff_distance, compute_surface_dice

from fedsuper.evaluation.metrics.boundaries import TOLERANCE_MM, boundary_scores
from fedsuper.evaluation.metrics.measurements import RATIO, Measured, measure, summarize_errors

SPACING = (3.0, 0.6, 0.6)


def box(shape: tuple[int, int, int], z: slice, y: slice, x: slice) -> np.ndarray:
    mask = np.zeros(shape, dtype=bool)
    mask[z, y, x] = True
    return mask


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2), st.sampled_from([1, 6]))
def test_they_are_what_monai_computes(dy: int, dx: int, dz: int, slices: int) -> None:
    shape = (slices, 24, 24)
    depth, moved = (slice(None), slice(None)) if slices == 1 else (slice(1, 4), slice(1 + dz, 4 + dz))
    true = box(shape, depth, slice(5, 14), slice(6, 15))
    predicted = box(shape, moved, slice(5 + dy, 15), slice(6 + dx, 16))
    found = boundary_scores(predicted, true, SPACING)
    flat = slices == 1
    a, b = (torch.from_numpy(mask[0] if flat else mask)[None, None].float() for mask in (predicted, true))
    spacing = list(SPACING[1:] if flat else SPACING)
    common = {"include_background": True, "spacing": spacing}
    assert found.hd95 == pytest.approx(float(compute_hausdorff_distance(a, b, percentile=95, **common)), abs=1e-5)
    mean = float(compute_average_surface_distance(a, b, symmetric=True, **common))
    assert found.assd == pytest.approx(mean, abs=1e-5)
    assert found.surface_dice == pytest.approx(float(compute_surface_dice(a, b, [TOLERANCE_MM], **common)), abs=1e-6)


def test_a_shift_by_hand_in_millimeters_and_in_pixels() -> None:
    true = box((1, 200, 200), slice(None), slice(50, 100), slice(50, 100))
    shifted = np.roll(true, 5, axis=1)
    assert boundary_scores(shifted, true, None).hd95 == pytest.approx(5)
    assert boundary_scores(shifted, true, (1.0, 0.5, 0.5)).hd95 == pytest.approx(2.5)
    assert boundary_scores(true, true, None) == boundary_scores(true, true, SPACING)
    assert boundary_scores(np.roll(true, 2, axis=1), true, None).surface_dice == 1  # 1% of 200 px


def test_empty_masks_follow_the_rule() -> None:
    nothing, something = np.zeros((1, 30, 40), dtype=bool), box((1, 30, 40), slice(None), slice(3, 9), slice(3, 9))
    assert vars(boundary_scores(nothing, nothing, None)) == {"hd95": 0, "assd": 0, "surface_dice": 1}
    for pair in ((nothing, something), (something, nothing)):
        assert vars(boundary_scores(*pair, None)) == {"hd95": 50, "assd": 50, "surface_dice": 0}
    volume = np.zeros((2, 3, 4), dtype=bool)
    assert boundary_scores(volume, ~volume, (6.0, 1.0, 1.0)).hd95 == pytest.approx(13)


def test_measurements_by_hand() -> None:
    disc = box((1, 40, 40), slice(None), slice(10, 30), slice(10, 20))
    cup = box((1, 40, 40), slice(None), slice(15, 20), slice(12, 14))
    empty = np.zeros_like(disc)
    found = measure({"disc": disc, "cup": empty}, {"disc": disc, "cup": cup}, None)
    assert found["disc_area_px"] == Measured(200, 200) and found["cup_area_px"] == Measured(0, 10)
    assert found[RATIO] == Measured(0, 0.25)
    assert math.isnan(measure({"disc": empty, "cup": empty}, {"disc": disc, "cup": cup}, None)[RATIO].predicted)
    volume = np.ones((5, 10, 10), dtype=bool)
    ml = measure({"prostate": volume & (np.arange(10) < 5)}, {"prostate": volume}, (3.0, 2.0, 2.0))
    assert ml["prostate_volume_ml"] == Measured(3.0, 6.0)
    assert measure({"a": disc}, {"a": disc}, (1.0, 0.5, 0.5))["a_area_mm2"] == Measured(50, 50)


def test_errors_count_what_is_undefined() -> None:
    rows = [{"x": Measured(2.0, 1.0)}, {"x": Measured(1.0, 4.0)}, {"x": Measured(math.nan, 1.0)}]
    assert summarize_errors(rows)["x"] == pytest.approx(
        {"mean_absolute_error": 2.0, "bias": -1.0, "std": np.std([1.0, -3.0], ddof=1), "n": 2, "undefined": 1}
    )
