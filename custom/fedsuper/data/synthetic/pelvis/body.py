"""The pelvis of one man around his gland: how high the gland sits in it, how he lies, how lean and fit he is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Body:
    """What varies around the gland. Lengths are millimeters."""

    level: float  # of the gland's middle: how high it sits between the bones
    pitch: float  # millimeters of level a millimeter to the back: slices cut the front and the back at other heights
    aside: float  # of the pelvis' middle from the gland's
    behind: float
    front: float  # from the gland to the belly's skin
    back: float
    roundness: float  # how far the belly curves
    bulk: float  # muscles' size, about 1
    streaks: float  # 0..1: fat in the muscles
    fat: float  # brightness, about 1
    marrow: float
    septa: float  # how far strands and vessels cross the fat


def draw_body(rng: np.random.Generator, wander: float) -> Body:
    """A random body; `wander` is the spread, in millimeters, of the gland's place among the bones."""
    level, aside, behind = rng.standard_normal(3) * np.array([1.4, 0.25, 0.7]) * wander
    return Body(
        level=float(level) - 4,
        pitch=float(rng.normal(0, 0.10)),
        aside=float(aside),
        behind=float(behind),
        front=float(rng.normal(98, 9)),
        back=float(rng.normal(104, 7)),
        roundness=float(rng.uniform(0.0008, 0.0035)),
        bulk=float(rng.normal(1.1, 0.10)),
        streaks=float(rng.beta(2, 2)),
        fat=float(rng.normal(1, 0.08)),
        marrow=float(rng.normal(0.95, 0.18)),
        septa=float(rng.uniform(0.3, 1.0)),
    )
