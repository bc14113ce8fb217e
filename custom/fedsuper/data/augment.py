"""Random variations of a training batch: one affine warp and one intensity change per sample, all vectorised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.nn import functional

from fedsuper.errors import FedSuperError


@dataclass(frozen=True)
class AugmentConfig:
    """How far a sample may be varied; zero (or false) switches a variation off.

    `rotation` in degrees, `scale` as a fraction of the size, `intensity` and `noise` in units of the sample's own
    standard deviation.
    """

    flip: bool = True
    flip_vertical: bool = False
    rotation: float = 15
    scale: float = 0.1
    intensity: float = 0.1
    noise: float = 0.0

    def __post_init__(self) -> None:
        limits = {"rotation": 180, "scale": 0.9, "intensity": 1, "noise": 10}
        for key, limit in limits.items():
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= limit:
                raise FedSuperError(f"augment.{key} must be a number from 0 to {limit}, not {value!r}")
        for key in ("flip", "flip_vertical"):
            if not isinstance(getattr(self, key), bool):
                raise FedSuperError(f"augment.{key} must be true or false, not {getattr(self, key)!r}")

    def to_json(self) -> dict[str, Any]:
        """The settings as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> AugmentConfig:
        """The settings from plain JSON; unknown keys are an error."""
        unknown = sorted(set(value) - set(cls.__dataclass_fields__))
        if unknown:
            raise FedSuperError(f"augment knows no {unknown}; it has {sorted(cls.__dataclass_fields__)}")
        return cls(**value)


def augment_batch(
    images: torch.Tensor, masks: torch.Tensor, config: AugmentConfig, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Vary each sample of images `[B, C, S, S]` and masks `[B, R, S, S]`; the inputs are left as they are.

    All numbers are drawn on the CPU from `generator` and moved then, so they are the same on every device.
    """
    if config.flip or config.flip_vertical or config.rotation or config.scale:
        images, masks = _warp(images, masks, config, generator)
    if config.intensity:
        images = _change_intensity(images, config.intensity, generator)
    if config.noise:
        noise = torch.randn(images.shape, generator=generator).to(images)
        images = images + config.noise * _spread(images) * noise
    return images, masks


def _warp(
    images: torch.Tensor, masks: torch.Tensor, config: AugmentConfig, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Flip, rotate and scale about the centre: x' = A x with A = R(angle) diag(sx, sy); edges repeat outwards."""
    count = len(images)
    draws = torch.rand(count, 4, generator=generator, dtype=torch.float64)
    across = torch.where(draws[:, 0] < 0.5, -1.0, 1.0) if config.flip else torch.ones(count)
    upside = torch.where(draws[:, 1] < 0.5, -1.0, 1.0) if config.flip_vertical else torch.ones(count)
    if not (config.rotation or config.scale):
        return _flip(images, across, upside), _flip(masks, across, upside)
    angle = (2 * draws[:, 2] - 1) * math.radians(config.rotation)
    factor = 1 + (2 * draws[:, 3] - 1) * config.scale
    cosine, sine = torch.cos(angle) / factor, torch.sin(angle) / factor
    matrix = torch.stack([across * cosine, -across * sine, upside * sine, upside * cosine])
    grid = _grid(matrix.to(images), images.shape)
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


def _flip(batch: torch.Tensor, across: torch.Tensor, upside: torch.Tensor) -> torch.Tensor:
    shape = (-1, 1, 1, 1)
    batch = torch.where((across < 0).view(shape).to(batch.device), batch.flip(3), batch)
    return torch.where((upside < 0).view(shape).to(batch.device), batch.flip(2), batch)


def _change_intensity(images: torch.Tensor, amount: float, generator: torch.Generator) -> torch.Tensor:
    """y = (1 + g) x + b sd(x) + c x^2 / max|x|, with g, b, c uniform in +-amount (c at most 0.4 in size).

    The quadratic term bends the curve as a gamma does, brightening one end of the range more than the other; with
    |c| < 1/2 it stays monotone, and unlike a power it is defined for negative values and costs no logarithm.
    """
    gain, bias, bend = ((2 * torch.rand(3, len(images), 1, 1, 1, generator=generator) - 1) * amount).to(images)
    bend = bend.clamp(-0.4, 0.4) / images.abs().amax(dim=(1, 2, 3), keepdim=True).clamp_min(1e-6)
    changed = images * bend
    return changed.add_(1 + gain).mul_(images).add_(bias * _spread(images))


def _spread(images: torch.Tensor) -> torch.Tensor:
    """The standard deviation of each sample, by moments: inputs are normalised, so nothing cancels, and it is fast."""
    flat = images.flatten(1)
    second = torch.linalg.vecdot(flat, flat) / flat.shape[1]
    return (second - flat.mean(dim=1).square()).clamp_min(0).sqrt().view(-1, 1, 1, 1)
