"""The men of a realistic site: what varies from one to the next, drawn from the site's case mix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedsuper.data.synthetic.pelvis.body import Body, draw_body
from fedsuper.data.synthetic.pelvis.pelvis_sites import PelvisMix
from fedsuper.data.synthetic.prostate_patient import URINE, Patient

PERIPHERAL, TRANSITION = 0.66, 0.45  # middling brightness of the zones: real glands are duller than the textbook's


@dataclass(frozen=True)
class Bulge:
    """A nodule that pushes the gland's border outwards. Place and radius are parts of the gland's half-axes."""

    x: float
    y: float
    t: float
    radius: float
    signal: float


@dataclass(frozen=True)
class Patch:
    """A dark patch in the gland, as bleeding leaves it. The place is in the gland's half-axes, the radius in mm."""

    x: float
    y: float
    t: float
    radius: float
    strength: float


@dataclass(frozen=True)
class Man(Patient):
    """A patient with a body of his own, disease, and a gland that shows more or less clearly."""

    body: Body
    peripheral: float
    transition: float
    urine: float
    capsule: float  # how well the dark line around the gland shows
    weak_ends: float  # 0..1: how far apex and base fade into what lies beyond
    resemblance: float  # 0..1: how far bladder wall and rectum look like the gland
    lean: float  # millimeters by which the apex lies farther back than the middle
    blunt: float  # how slowly the gland narrows towards its ends
    square: float  # 0..1: how far its corners are filled
    neck: float  # height on the gland, -1..1, from which the bladder lies in front of it
    aside: float  # millimeters by which the rectum leaves the midline above the gland
    bulges: tuple[Bulge, ...]
    patches: tuple[Patch, ...]


def draw_man(mix: PelvisMix, rng: np.random.Generator, balloon: bool) -> Man:
    """A man of the site's mix: size and place of his organs, disease, how clearly his gland shows, and his body."""
    grown = float(np.clip(rng.beta(2, 2) + mix.hyperplasia - 0.5, 0, 1))
    size = math.exp(mix.size_spread * float(np.clip(rng.standard_normal(), -2, 2))) * (0.86 + 0.30 * grown)
    x, y, z = (float(part) for part in rng.standard_normal(3) * mix.wander)
    weak = float(np.clip(mix.weak_capsule * rng.gamma(2.0, 0.5), 0, 1))
    zones = np.exp(mix.unlike * np.clip(rng.standard_normal(2), -2, 2))
    width = 25.0 * size * float(rng.normal(1, 0.05))
    gas = bool(rng.random() < 0.45)
    return Man(
        half_width=width,
        half_depth=width * (0.70 if balloon else 0.78) * float(rng.normal(0.94 + 0.14 * grown, 0.06)),
        half_height=21.0 * size * float(rng.normal(1, 0.10)),
        hyperplasia=grown,
        tumor=bool(rng.random() < 0.45),
        bladder=float(rng.uniform(18, 38)),
        rectum=21.0 if balloon else float(rng.uniform(8, 18)),
        gas=gas,
        balloon=balloon,
        stature=float(rng.normal(1, 0.05)),
        shift=(0.4 * x, 1 + 1.15 * y, 0.5 * z),
        body=draw_body(rng, mix.wander),
        peripheral=PERIPHERAL * float(zones[0]) * (1 - 0.35 * float(rng.beta(1, 2))),
        transition=TRANSITION * float(zones[1]),
        urine=URINE * (1 - 0.5 * mix.resemblance * float(rng.beta(1, 2))),
        capsule=1 - weak,
        weak_ends=float(np.clip(mix.weak_ends * rng.gamma(3.0, 0.33), 0, 1)),
        resemblance=float(np.clip(mix.resemblance * rng.gamma(2.0, 0.5), 0, 1)),
        lean=float(rng.normal(2.5, 3.0)),
        blunt=float(rng.uniform(1.6, 2.6)),
        square=float(rng.uniform(0, 0.4)),
        neck=float(rng.normal(-0.05, 0.30)),
        aside=float(rng.normal(0, 6)),
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
