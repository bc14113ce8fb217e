"""The men of a realistic site: what varies from one to the next, drawn from the site's case mix."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fedsuper.data.synthetic.pelvis.pelvis_sites import PelvisMix
from fedsuper.data.synthetic.prostate_patient import PERIPHERAL, TRANSITION, URINE, Bulge, Patch, Patient, draw_patient


def draw_man(mix: PelvisMix, rng: np.random.Generator, balloon: bool) -> Patient:
    """A patient of the textbook, then varied in size, place, disease and in how clearly his gland shows."""
    plain = draw_patient(rng, balloon)
    grown = float(np.clip(rng.beta(2, 2) + mix.hyperplasia - 0.5, 0, 1))
    size = math.exp(mix.size_spread * float(np.clip(rng.standard_normal(), -2, 2))) * (0.84 + 0.34 * grown)
    x, y, z = rng.standard_normal(3) * mix.wander
    weak = float(np.clip(mix.weak_capsule * rng.gamma(2.0, 0.5), 0, 1))
    zones = np.exp(mix.unlike * np.clip(rng.standard_normal(3), -2, 2))
    pressed = plain.half_depth / plain.half_width
    width = 23.0 * size * rng.normal(1, 0.05)
    return replace(
        plain,
        half_width=width,
        half_depth=width * pressed * float(rng.normal(0.92 + 0.14 * grown, 0.05)),
        half_height=15.0 * size * float(rng.normal(1, 0.08)),
        hyperplasia=grown,
        tumor=bool(rng.random() < 0.45),
        bladder=float(rng.uniform(12, 36)),
        stature=float(rng.normal(1, 0.07)),
        shift=(0.6 * x, 2 + y, 0.5 * z),
        peripheral=PERIPHERAL * float(zones[0]) * (1 - 0.45 * float(rng.beta(1, 3))),
        transition=TRANSITION * float(zones[1]),
        urine=URINE * (1 - 0.5 * mix.resemblance * float(rng.beta(1, 2))),
        capsule=1 - weak,
        weak_ends=float(np.clip(mix.weak_ends * rng.gamma(3.0, 0.33), 0, 1)),
        resemblance=float(np.clip(mix.resemblance * rng.gamma(2.0, 0.5), 0, 1)),
        bulges=_bulges(mix, grown, rng),
        patches=_patches(mix, rng),
    )


def _bulges(mix: PelvisMix, grown: float, rng: np.random.Generator) -> tuple[Bulge, ...]:
    """Nodules that reach beyond the gland's plain outline: most in front and at the base, where there is room."""
    count = min(int(rng.poisson(2 * mix.bulges * grown)), 5)
    return tuple(
        Bulge(
            x=float(rng.uniform(-0.8, 0.8)),
            y=float(rng.uniform(-0.9, 0.2)),
            t=float(rng.uniform(-0.2, 0.95)),
            radius=float(rng.uniform(0.25, 0.5)),
            signal=float(rng.uniform(0.2, 0.75)),
        )
        for _ in range(count)
    )


def _patches(mix: PelvisMix, rng: np.random.Generator) -> tuple[Patch, ...]:
    """Bleeding: T2-dark patches at the back and the sides of the gland."""
    if rng.random() >= mix.bleeding:
        return ()
    count = int(rng.integers(1, 5))
    return tuple(
        Patch(
            x=float(rng.uniform(-0.9, 0.9)),
            y=float(rng.uniform(0.1, 0.95)),
            t=float(rng.uniform(-0.7, 0.7)),
            radius=float(rng.uniform(3.5, 9.0)),
            strength=float(rng.uniform(0.4, 0.9)),
        )
        for _ in range(count)
    )
