"""FedDG's amplitudes and boundary contrast."""

from __future__ import annotations

import pytest
import torch

from fedsuper.core.contrast import band_embeddings, boundary_bands, contrast
from fedsuper.core.spectrum import half_width, low_amplitudes, with_amplitudes


def images(seed: int, count: int = 2, size: int = 12) -> torch.Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.49])
@pytest.mark.parametrize("size", [11, 12])
def test_its_own_amplitudes_give_an_image_back(share: float, size: int) -> None:
    x = images(0, size=size)
    torch.testing.assert_close(with_amplitudes(x, low_amplitudes(x, share), share), x, rtol=0, atol=1e-12)


def test_a_window_of_zero_shifts_the_mean_alone() -> None:
    x, other = images(0), images(1) + 2
    moved = with_amplitudes(x, low_amplitudes(other, 0.0), 0.0)
    shift = other.mean(dim=(2, 3), keepdim=True) - x.mean(dim=(2, 3), keepdim=True)
    torch.testing.assert_close(moved, x + shift, rtol=0, atol=1e-12)


def test_amplitudes_are_swapped_and_phases_and_high_frequencies_kept() -> None:
    x, other, share = images(0), images(1), 0.2
    moved = with_amplitudes(x, low_amplitudes(other, share), share)
    assert moved.dtype == x.dtype
    torch.testing.assert_close(low_amplitudes(moved, share), low_amplitudes(other, share))
    before, after = torch.fft.fft2(x), torch.fft.fft2(moved)
    torch.testing.assert_close(after.angle().cos(), before.angle().cos(), rtol=0, atol=1e-9)
    assert torch.allclose(after[..., 6, 6], before[..., 6, 6])


def test_the_windows_size_is_the_papers() -> None:
    assert half_width(100, 200, 0.01) == 1 and half_width(200, 200, 0.01) == 2
    assert low_amplitudes(images(0), 0.25).shape == (2, 3, 7, 7)
    assert half_width(4, 4, 0.49) == 1, "the window stays inside the spectrum"


def test_a_small_z_scored_image_takes_another_look_all_the_same() -> None:
    """Below 100 px the default share rounds to the mean alone, which is 0 after z-scoring: nothing would change."""
    x, other = (each - each.mean(dim=(1, 2, 3), keepdim=True) for each in (images(0, size=64), images(1, size=64) ** 3))
    moved = with_amplitudes(x[:, :1], low_amplitudes(other[:, :1], 0.01), 0.01)
    assert half_width(64, 64, 0.01) == 1 and half_width(64, 64, 0.0) == 0
    assert float((moved - x[:, :1]).abs().max()) > 0.01


def square() -> torch.Tensor:
    mask = torch.zeros(1, 1, 16, 16)
    mask[..., 4:12, 4:12] = 1
    return mask


def test_bands_lie_on_both_sides_of_the_contour() -> None:
    inside, outside = boundary_bands(square(), width=1)[0]
    assert inside.sum() == 8 * 8 - 6 * 6 and outside.sum() == 10 * 10 - 8 * 8
    assert (inside * outside).sum() == 0


def test_empty_regions_give_no_embedding() -> None:
    masks = torch.cat([square(), torch.zeros(1, 1, 16, 16)], dim=1)
    vectors, bands = band_embeddings(torch.ones(1, 5, 8, 8), boundary_bands(masks))
    assert vectors.shape == (2, 5) and bands.tolist() == [0, 2]
    torch.testing.assert_close(vectors, torch.ones(2, 5))


def test_contrast_is_low_where_classes_are_apart() -> None:
    classes = torch.tensor([0, 0, 1, 1])
    apart = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
    together = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    assert contrast(apart, classes, 0.05) < 1e-6 < contrast(together, classes, 0.05)


@pytest.mark.parametrize("classes", [[0, 0, 0], [0, 1, 2], [0]])
def test_contrast_without_pairs_or_opponents_is_zero_and_differentiable(classes: list[int]) -> None:
    vectors = torch.ones(len(classes), 4, requires_grad=True)
    value = contrast(vectors, torch.tensor(classes), 0.05)
    value.backward()
    assert value == 0 and torch.isfinite(vectors.grad).all()
