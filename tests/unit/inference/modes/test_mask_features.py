"""psi of masks made by hand."""

from __future__ import annotations

import pytest
import torch

from fedsuper.inference.masks.mask_features import PER_REGION, mask_features


def test_a_sure_square_and_a_doubtful_one() -> None:
    p = torch.zeros(1, 2, 16, 16)
    p[0, 0, 4:8, 4:8] = 1.0
    p[0, 1, 4:8, 4:8], p[0, 1, 12:14, 12:14] = 0.6, 0.6
    sure, doubtful = mask_features(p).split(PER_REGION)
    assert sure.tolist() == pytest.approx([1, 16.5 / 17, 0, 0.25, 1, 16 / 17], abs=1e-6)
    expected = [2 * 12 / (12 + 20), 12.5 / 21, 20 / 36, (20 / 256) ** 0.5, 0.8, 24 / (4 * 20**0.5 + 1)]
    assert doubtful.tolist() == pytest.approx(expected, abs=1e-6)


def test_an_empty_mask_has_features_too_and_a_volume_is_one_image() -> None:
    assert bool(mask_features(torch.zeros(3, 1, 8, 8)).isfinite().all())
    p = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(mask_features(p)[:4], mask_features(p.flip(0))[:4]), "the order of slices does not matter"
