"""Changes of place, the same for an image and its masks: flips, one affine warp, elastic deformation."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from fedsuper.data.augment.draws import onto, smooth_fields
from fedsuper.data.augment.settings import AugmentSettings


def warp(
    images: torch.Tensor, masks: torch.Tensor, config: AugmentSettings, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Flip, rotate and scale about the center: x' = A x with A = R(angle) diag(sx, sy); edges repeat outwards.

    `elastic` adds a smooth displacement of at most that fraction of the side; it is kept below what would fold.
    """
    count = len(images)
    draws = torch.rand(count, 4, generator=generator, dtype=torch.float64)
    across = torch.where(draws[:, 0] < 0.5, -1.0, 1.0) if config.flip else torch.ones(count)
    upside = torch.where(draws[:, 1] < 0.5, -1.0, 1.0) if config.flip_vertical else torch.ones(count)
    if not (config.rotation or config.scale or config.elastic):
        turned = onto(torch.stack([across, upside]), images).view(2, -1, 1, 1, 1) < 0
        return _flip(images, turned), _flip(masks, turned)
    angle = (2 * draws[:, 2] - 1) * math.radians(config.rotation)
    factor = 1 + (2 * draws[:, 3] - 1) * config.scale
    cosine, sine = torch.cos(angle) / factor, torch.sin(angle) / factor
    matrix = torch.stack([across * cosine, -across * sine, upside * sine, upside * cosine])
    grid = _grid(onto(matrix, images), images.shape)
    if config.elastic:
        grid = grid + 2 * config.elastic * smooth_fields(images, 2, generator).movedim(1, 3)
    warped = functional.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
    moved = functional.grid_sample(
        masks.to(images.dtype), grid, mode="nearest", padding_mode="border", align_corners=False
    )
    return warped, moved.to(masks.dtype)


def _grid(matrix: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """The sampling grid `[B, H, W, 2]` of 2x2 matrices `[4, B]` (torch's `affine_grid`, several times faster)."""
    xx, xy, yx, yy = matrix.view(4, -1, 1, 1)
    rows, columns = (
        ((torch.arange(length, device=matrix.device) * 2 + 1) / length - 1).to(matrix.dtype) for length in shape[2:]
    )
    rows = rows.view(1, -1, 1)
    return torch.stack([xx * columns + xy * rows, yx * columns + yy * rows], dim=3)


def _flip(batch: torch.Tensor, turned: torch.Tensor) -> torch.Tensor:
    across, upside = turned
    batch = torch.where(across, batch.flip(3), batch)
    return torch.where(upside, batch.flip(2), batch)
