"""Random variations: reproducible, aligned between image and mask, and off when switched off."""

from __future__ import annotations

import time

import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional

from fedsuper.data.augment.batch import augment_batch
from fedsuper.data.augment.settings import AugmentSettings

OFF = AugmentSettings(flip=False, rotation=0, scale=0, intensity=0)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch(count: int = 4, channels: int = 3, size: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    images = torch.randn(count, channels, size, size, generator=generator(9))
    masks = (torch.rand(count, 2, size, size, generator=generator(8)) > 0.5).to(torch.uint8)
    return images, masks


def test_all_off_changes_nothing() -> None:
    images, masks = batch()
    varied, moved = augment_batch(images, masks, OFF, generator())
    assert torch.equal(varied, images) and torch.equal(moved, masks)


def test_same_seed_same_batch_and_the_global_stream_is_not_touched() -> None:
    images, masks = batch()
    config = AugmentSettings(flip_vertical=True, noise=0.1)
    state = torch.get_rng_state()
    first, second, third = (augment_batch(images, masks, config, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1])
    assert not torch.equal(first[0], third[0])


def test_inputs_stay_as_they_are() -> None:
    images, masks = batch()
    copies = images.clone(), masks.clone()
    augment_batch(images, masks, AugmentSettings(noise=0.1), generator())
    assert torch.equal(images, copies[0]) and torch.equal(masks, copies[1])


@pytest.mark.parametrize("vertical", [False, True])
def test_a_flip_is_exact_and_hits_about_half(vertical: bool) -> None:
    images, masks = batch(64)
    config = AugmentSettings(flip=not vertical, flip_vertical=vertical, rotation=0, scale=0, intensity=0)
    varied, moved = augment_batch(images, masks, config, generator())
    axis = 1 if vertical else 2
    flipped = [torch.equal(new, old.flip(axis)) for new, old in zip(varied, images, strict=True)]
    kept = [torch.equal(new, old) for new, old in zip(varied, images, strict=True)]
    assert all(a != b for a, b in zip(flipped, kept, strict=True)) and 16 < sum(flipped) < 48
    for new, old, was in zip(moved, masks, flipped, strict=True):
        assert torch.equal(new, old.flip(axis) if was else old)


def test_mask_and_image_move_together() -> None:
    """An image that is its own mask is still (nearly) its own mask afterwards."""
    rows, columns = torch.meshgrid(torch.arange(64), torch.arange(64), indexing="ij")
    shape = ((rows - 20) ** 2 / 2 + (columns - 40) ** 2 < 150).float().expand(8, 1, 64, 64)
    config = AugmentSettings(flip_vertical=True, rotation=40, scale=0.3, intensity=0)
    varied, moved = augment_batch(shape, shape.to(torch.uint8), config, generator(3))
    assert moved.dtype == torch.uint8 and int(moved.max()) == 1
    overlap = ((varied >= 0.5) & (moved > 0)).sum(dim=(1, 2, 3)) / (moved > 0).sum(dim=(1, 2, 3))
    assert float(overlap.min()) > 0.9
    assert not torch.equal(moved[0], moved[1])


def test_the_warp_is_the_rotation_and_scale_it_says() -> None:
    """Against torch's own affine grid, with the numbers drawn from the same stream."""
    images, masks = batch(3, size=24)
    config = AugmentSettings(flip=False, rotation=30, scale=0.2, intensity=0)
    varied, _ = augment_batch(images, masks, config, generator(4))
    draws = torch.rand(3, 4, generator=generator(4), dtype=torch.float64)
    angle = torch.deg2rad((2 * draws[:, 2] - 1) * 30)
    factor = 1 + (2 * draws[:, 3] - 1) * 0.2
    zeros = torch.zeros(3, dtype=torch.float64)
    matrix = torch.stack(
        [angle.cos() / factor, -angle.sin() / factor, zeros, angle.sin() / factor, angle.cos() / factor, zeros], dim=1
    )
    grid = functional.affine_grid(matrix.view(3, 2, 3).float(), [3, 3, 24, 24], align_corners=False)
    expected = functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
    torch.testing.assert_close(varied, expected, atol=1e-4, rtol=0)


def test_intensity_is_monotone_and_leaves_masks_alone() -> None:
    images = torch.linspace(-3, 3, 256).view(1, 1, 16, 16).repeat(32, 1, 1, 1)
    masks = torch.ones(32, 1, 16, 16, dtype=torch.uint8)
    config = AugmentSettings(flip=False, rotation=0, scale=0, intensity=0.15)
    varied, moved = augment_batch(images, masks, config, generator())
    assert torch.equal(moved, masks)
    assert (varied.flatten(1).diff(dim=1) > 0).all()
    assert float((varied - images).abs().max()) < 3 * 0.15 * 3 and not torch.equal(varied[0], varied[1])


def test_a_blank_image_stays_finite() -> None:
    blank = torch.zeros(2, 1, 16, 16)
    varied, _ = augment_batch(blank, blank.to(torch.uint8), AugmentSettings(noise=0.5), generator())
    assert varied.abs().max() == 0


def test_settings_are_checked_and_round_trip() -> None:
    config = AugmentSettings(noise=0.2, flip=False)
    assert AugmentSettings.model_validate(config.to_json()) == config
    for faulty in (
        {"rotation": -1},
        {"scale": 1.5},
        {"flip": 1},
        {"noise": float("nan")},
        {"zoom": 2},
        {"intensity": 2},
        {"scale": 0.95},
        {"noise": 20},
    ):
        with pytest.raises(ValidationError):
            AugmentSettings.model_validate(faulty)


def test_a_batch_is_cheap() -> None:
    """About 2 ms for four images of 128 px, in this thread's own time: what else the machine does costs nothing."""
    images, masks = batch(4, 3, 128)
    stream = generator()
    times = []
    for _ in range(20):
        start = time.thread_time()
        augment_batch(images, masks, AugmentSettings(), stream)
        times.append(time.thread_time() - start)
    assert min(times) < 0.05
