"""A made-up man: the size of his organs, his disease, and how bright each tissue is in T2 contrast.

Signal is relative: 0 is air or cortical bone, 1 is urine. Lengths are millimeters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FAT, MUSCLE, MARROW, CORTEX, FLOW, URINE, WALL, GAS = 0.70, 0.12, 0.46, 0.03, 0.03, 1.0, 0.16, 0.02
PERIPHERAL, TRANSITION, STROMA, CAPSULE, VESICLE = 0.80, 0.38, 0.13, 0.14, 0.72


@dataclass(frozen=True)
class Patient:
    """What varies from man to man. The coil balloon of an endorectal scan is part of the anatomy it presses on."""

    half_width: float
    half_depth: float
    half_height: float
    hyperplasia: float  # 0..1: how much of the gland the transition zone takes
    tumor: bool
    bladder: float  # radius when full
    rectum: float  # radius
    gas: bool
    balloon: bool
    stature: float  # scale of the pelvis
    shift: tuple[float, float, float]  # where the gland lies in the picture


def draw_patient(rng: np.random.Generator, balloon: bool) -> Patient:
    """A random man, the same distribution everywhere: hospitals differ in scanners, not in men."""
    hyperplasia = float(rng.beta(2, 2))
    volume = rng.normal(1.0, 0.06) * (0.90 + 0.26 * hyperplasia)
    return Patient(
        half_width=24.0 * volume * rng.normal(1, 0.04),
        half_depth=(15.0 if balloon else 17.5) * volume * (0.92 + 0.2 * hyperplasia) * rng.normal(1, 0.04),
        half_height=15.5 * volume * rng.normal(1, 0.05),
        hyperplasia=hyperplasia,
        tumor=bool(rng.random() < 0.35),
        bladder=rng.uniform(16, 30),
        rectum=21.0 if balloon else rng.uniform(10, 17),
        gas=bool(rng.random() < 0.45),
        balloon=balloon,
        stature=rng.normal(1, 0.04),
        shift=(rng.normal(0, 2.5), rng.normal(2, 3.0), rng.normal(0, 1.5)),
    )
