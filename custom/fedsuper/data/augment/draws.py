"""Random numbers for a batch: drawn on the processor, so that every device gets the same, and moved without a wait."""

from __future__ import annotations

from functools import lru_cache

import torch

KNOTS = 5  # a smooth field has so many control points a side


def onto(draws: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """`draws` on the device and in the precision of `images`; through pinned memory for CUDA, without a wait."""
    if images.device.type == "cuda":
        draws = draws.pin_memory()
    return draws.to(images, non_blocking=True)


def strengths(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """`[B, 1, 1, 1]`: for each sample 0 with probability 1/2, else uniform in -1..1."""
    amount, switch = torch.rand(2, len(images), 1, 1, 1, generator=generator)
    return onto(torch.where(switch < 0.5, 2 * amount - 1, 0.0), images)


def smooth_fields(images: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """`[B, count, H, W]` within -1..1: uniform control points, carried over the image by cubic B-splines.

    A sample has no field (0 everywhere) with probability 1/2. Splines of values within bounds stay within them.
    """
    points = 2 * torch.rand(len(images), count, KNOTS, KNOTS, generator=generator) - 1
    switch = torch.rand(len(images), 1, 1, 1, generator=generator) < 0.5
    points = onto(torch.where(switch, points, 0.0), images)
    down, across = (_splines(length, points.device, points.dtype) for length in images.shape[2:])
    return down @ points @ across.T


@lru_cache(maxsize=16)
def _splines(length: int, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """`[length, KNOTS]`: the weight of each control point at each pixel; rows sum to 1. Kept where it is used."""
    place = (torch.arange(length, dtype=torch.float64) + 0.5) / length * (KNOTS - 1)
    distance = (place[:, None] - torch.arange(KNOTS, dtype=torch.float64)).abs()
    near = 2 / 3 - distance.square() + distance**3 / 2
    far = (2 - distance).clamp_min(0) ** 3 / 6
    weights = torch.where(distance < 1, near, far)
    return (weights / weights.sum(dim=1, keepdim=True)).to(device, dtype)
