"""The hospitals of the realistic retina federation: camera, case mix, habit, and how far each stands from the common.

All photograph the region around the disc. Sites 2 and 4 have nearly one camera and draw the cup differently, so do 3
and 6: a model that averages them must compromise, a model that knows the site need not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedsuper.data.synthetic.retina_sites import Camera
from fedsuper.data.synthetic.shift import PARTS, Amounts, towards


@dataclass(frozen=True)
class CaseMix:
    """Whom a site photographs. Lengths are fractions of the image's width; shares are of patients."""

    disc_diameter: float = 0.40
    disc_spread: float = 0.13  # of the diameter, from eye to eye
    disc_wander: float = 0.085  # of the disc's place
    cup_ratio: float = 0.50
    cup_spread: float = 0.13
    tilted: float = 0.15  # share of tilted, oval discs
    atrophy: float = 0.30  # share with a crescent of peripapillary atrophy
    weak_border: float = 0.2  # how far rims fade or break, 0..1
    pallor: float = 0.25  # how pale rims are, 0..1: then nothing but the vessels shows the cup
    exudates: float = 0.8  # clusters an image
    scars: float = 0.35  # pale round patches an image, which resemble discs
    bleeding: float = 0.8  # hemorrhages an image
    opacity: float = 0.20  # how cloudy the media are, 0..1
    glare: float = 0.25  # strength of reflections
    pigment: float = 0.16  # spread of the fundus' color from patient to patient


@dataclass(frozen=True)
class Hand:
    """How a site draws: diameter drawn over diameter there is; `atrophy` is the share of a crescent drawn as disc."""

    cup: float = 1.0
    disc: float = 1.0
    atrophy: float = 0.15
    unsteady_disc: float = 0.025
    unsteady_cup: float = 0.055


@dataclass(frozen=True)
class EyeHospital:
    """One site; `share` is its part in the federation's images."""

    camera: Camera
    mix: CaseMix
    hand: Hand
    share: float
    amounts: Amounts


COMMON_CAMERA = Camera((0.74, 0.40, 0.22), field_radius=0.75, vignetting=0.3, noise=0.02, blur=0.007, off_center=0.2)
COMMON_MIX, COMMON_HAND = CaseMix(), Hand()

# Shares follow FedSM's Table 1, stretched so that the largest site has ten times the images of the smallest.
EXTREMES: tuple[tuple[Camera, CaseMix, Hand, float], ...] = (
    (
        Camera((0.84, 0.47, 0.20), field_radius=0.62, vignetting=0.38, noise=0.018, blur=0.006, off_center=0.2),
        CaseMix(disc_diameter=0.36, cup_ratio=0.55, pallor=0.45, weak_border=0.15),
        Hand(cup=1.02),
        100,
    ),
    (
        Camera(
            (0.60, 0.25, 0.13),
            field_radius=0.72,
            vignetting=0.45,
            noise=0.035,
            blur=0.009,
            vessels=1.15,
            off_center=0.3,
        ),
        CaseMix(disc_diameter=0.34, cup_ratio=0.56, exudates=2.4, bleeding=2.4, opacity=0.35),
        Hand(cup=0.80, disc=0.97, atrophy=0.0),
        195,
    ),
    (
        Camera(
            (0.80, 0.50, 0.42), field_radius=0.98, vignetting=0.2, noise=0.014, blur=0.010, vessels=0.8, mottling=0.09
        ),
        CaseMix(disc_diameter=0.47, cup_ratio=0.48, tilted=0.4, atrophy=0.65, weak_border=0.35, scars=0.8),
        Hand(cup=1.22, disc=1.04, atrophy=0.5),
        88,
    ),
    (
        Camera(
            (0.70, 0.32, 0.07), field_radius=0.66, vignetting=0.36, noise=0.02, blur=0.007, vessels=1.1, off_center=0.3
        ),
        CaseMix(disc_diameter=0.36, cup_ratio=0.50, exudates=1.8, glare=0.5),
        Hand(cup=1.22, disc=1.03, atrophy=0.2),
        460,
    ),
    (
        Camera((0.52, 0.44, 0.34), 0.85, 1.1, 0.56, 0.9, vignetting=0.55, noise=0.035, grain=0.010, vessels=1.2),
        CaseMix(disc_diameter=0.42, cup_ratio=0.60, pallor=0.6, weak_border=0.4, opacity=0.5, glare=0.5),
        Hand(cup=0.86, disc=0.95, atrophy=0.0),
        160,
    ),
    (
        Camera(
            (0.76, 0.52, 0.20),
            field_radius=0.85,
            vignetting=0.22,
            noise=0.028,
            blur=0.007,
            vessels=0.85,
            mottling=0.07,
            off_center=0.35,
        ),
        CaseMix(disc_diameter=0.44, cup_ratio=0.52, tilted=0.25, atrophy=0.4, weak_border=0.25),
        Hand(cup=0.84, disc=0.99, atrophy=0.1),
        900,
    ),
)
# camera, anatomy, habit: how much of its extreme each site shows.
AMOUNTS = (Amounts(1.0, 1.0, 1.25),) * len(EXTREMES)

# Near: the fourth site's camera a little off, an average case mix, and a generous hand that no site has: at a
# real hospital that nobody trained on, most of what is lost is habit, which no unlabeled image shows.
# Unlike: a camera no site has (dark, green, hazy), sicker eyes, and a habit between theirs.
OUTSIDE: dict[str, EyeHospital] = {
    "near": EyeHospital(
        Camera(
            (0.66, 0.29, 0.09), 1.02, 1.0, 0.68, vignetting=0.38, noise=0.024, blur=0.007, vessels=1.05, off_center=0.3
        ),
        replace(EXTREMES[3][1], disc_diameter=0.38, atrophy=0.4),
        Hand(cup=1.32, disc=1.06, atrophy=0.8),
        1,
        AMOUNTS[3],
    ),
    "unlike": EyeHospital(
        Camera((0.26, 0.50, 0.42), 0.75, 0.8, 0.50, 0.86, vignetting=0.6, noise=0.045, grain=0.008, blur=0.012),
        CaseMix(disc_diameter=0.32, atrophy=0.5, weak_border=0.35, opacity=0.5, glare=0.7, exudates=2.0),
        Hand(cup=1.06, disc=1.05, atrophy=0.4),
        1,
        Amounts(2.0, 1.0, 1.0),
    ),
}


def eye_hospital(index: int, shift: tuple[str, ...] = PARTS) -> EyeHospital:
    """The hospital with this index, from 0; beyond the sixth, the six again with another tint, zoom and habit."""
    turn, base = divmod(index, len(EXTREMES))
    camera, mix, hand, share = EXTREMES[base]
    if turn:
        rng = np.random.default_rng([21, index])
        red, green, blue = (float(np.clip(part * rng.uniform(0.8, 1.25), 0.05, 0.9)) for part in camera.tint)
        camera = replace(camera, tint=(red, green, blue), noise=camera.noise * float(rng.uniform(0.6, 1.8)))
        mix = replace(mix, disc_diameter=mix.disc_diameter * float(rng.uniform(0.9, 1.1)))
        hand = replace(hand, cup=float(rng.uniform(0.8, 1.22)))
    amounts = AMOUNTS[base].only(shift)
    return EyeHospital(
        towards(COMMON_CAMERA, camera, amounts.camera),
        towards(COMMON_MIX, mix, amounts.anatomy),
        towards(COMMON_HAND, hand, amounts.habit),
        share,
        amounts,
    )
