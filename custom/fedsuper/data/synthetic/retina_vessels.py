"""The vessels of the retina: curves that leave the disc, bend around the macula and branch."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fedsuper.data.synthetic.drawing import Floats, Points, blur, splat


class Placed(Protocol):
    """Eyes whose discs are somewhere in their pictures."""

    @property
    def x(self) -> Floats: ...
    @property
    def y(self) -> Floats: ...
    @property
    def side(self) -> Floats: ...


def draw_vessels(
    eyes: Placed, disc_diameter: float, size: int, rng: np.random.Generator, strength: Floats | None = None
) -> Floats:
    """Opacity of the vessels: artery and vein of the four arcades that leave the disc, with branches.

    `strength` (image, vessel) makes some of the eight stronger than others, or leaves them out.
    """
    count, points = len(eyes.x), 2 * size
    # Angles for a macula on the left, y down: upper and lower temporal (they bend around it), upper and lower nasal.
    leave = np.repeat(np.array([-1.85, 1.85, -0.95, 0.95]), 2)[None, :] + 0.16 * rng.standard_normal((count, 8))
    bend = np.repeat(np.array([-1.3, 1.3, 0.5, -0.5]), 2)[None, :] + 0.35 * rng.standard_normal((count, 8))
    start = np.stack([eyes.x, eyes.y])[:, :, None, None] + 0.1 * disc_diameter * rng.standard_normal((2, count, 8, 1))
    trunk = _walk(start, leave, bend, 1.1, eyes.side, points, rng)
    field = np.zeros((count, size, size), np.float32)
    fade = np.linspace(1.0, 0.55, points, dtype=np.float32)
    kind = np.tile([0.75, 1.1], 4)[None, :, None]  # arteries are paler than veins
    if strength is not None:
        kind = kind * strength[:, :, None]
    field += _thicken(trunk, np.broadcast_to(kind * fade, trunk.shape[1:]), 1.1, 0.030 * disc_diameter, size)
    for fork in (0.12, 0.24, 0.42):
        at = int(fork * points)
        turn = rng.choice([-1.0, 1.0], (count, 8)) * rng.uniform(0.5, 0.9, (count, 8))
        heading = leave + bend * fork
        branch = _walk(
            trunk[..., at : at + 1], heading + turn, bend * 0.6 - turn * 0.6, 0.6, eyes.side, points // 2, rng
        )
        thin = np.broadcast_to(0.7 * kind * fade[: points // 2], branch.shape[1:])
        field += _thicken(branch, thin, 0.6, 0.017 * disc_diameter, size)
    return np.asarray(1 - np.exp(-1.3 * field))


def _walk(
    start: Points, leave: Points, bend: Points, length: float, side: Floats, points: int, rng: np.random.Generator
) -> Points:
    """Points (2, image, vessel, point) of curves that set out at angle `leave`, turn by `bend` and wiggle a little."""
    t = np.linspace(0, 1, points)
    phase, pace = rng.uniform(0, 2 * np.pi, (*leave.shape, 1)), rng.uniform(2, 5, (*leave.shape, 1))
    angle = leave[..., None] + bend[..., None] * t + 0.25 * np.sin(phase + 2 * np.pi * pace * t)
    steps = np.stack([np.cos(angle) * side[:, None, None], np.sin(angle)]) * (length / points)
    return start + np.cumsum(steps, axis=-1)


def _thicken(line: Points, weight: Points, length: float, sigma: float, size: int) -> Floats:
    """Widen curves to a Gaussian profile of peak about `weight`."""
    count = line.shape[1]
    x, y, w = (values.reshape(count, -1).astype(np.float32) for values in (line[0], line[1], weight))
    per_point = length / line.shape[-1] * size  # pixels of line that a point stands for
    sigma = max(sigma, 0.3 / size)
    return blur(splat(x, y, w * per_point, size), sigma) * np.float32(np.sqrt(2 * np.pi) * sigma * size)
