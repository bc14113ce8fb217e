"""The hospitals of the synthetic retina federation: each has a camera, patients, an annotation habit and a size.

The design follows what makes public fundus collections differ. Sites 2 and 4 share a kind of camera (wide, dark red),
sites 3 and 6 another (close up, pale), site 1 stands between them and site 5 is far from all. Sites that look alike
draw the cup differently: a model that averages them must compromise, a model that knows the site need not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Camera:
    """How a site photographs. Lengths are fractions of the image's width."""

    tint: tuple[float, float, float]  # color of the bare fundus
    brightness: float = 1.0
    contrast: float = 1.0
    field_radius: float = 0.49  # beyond it the picture is black; above 0.71 the field fills the picture
    field_height: float = 1.0  # share of the picture's height that is exposed; below 1 top and bottom are cut off
    vignetting: float = 0.3  # light lost at the rim of the field
    blur: float = 0.005
    noise: float = 0.02
    grain: float = 0.0  # width of the noise's grains; 0 is independent pixels
    vessels: float = 1.0  # how dark the vessels appear
    mottling: float = 0.05  # how strongly the choroid shows through
    off_center: float = 0.0  # how far the field's middle may lie from the picture's, towards the macula


@dataclass(frozen=True)
class Patients:
    """Whom a site photographs."""

    disc_diameter: float  # fraction of the image's width
    disc_offset: tuple[float, float] = (0.0, 0.0)  # towards the nose, downwards, from the picture's center
    disc_wander: float = 0.05  # spread of the disc's position
    cup_ratio: float = 0.5  # cup diameter over disc diameter
    cup_spread: float = 0.07
    lesions: float = 1.0  # mean number of clusters of exudates


@dataclass(frozen=True)
class Habit:
    """How a site draws: diameter drawn over diameter visible."""

    cup: float = 1.0
    disc: float = 1.0
    unsteadiness: float = 0.015  # spread of the above from image to image


@dataclass(frozen=True)
class Hospital:
    """One site; `share` is its part in the federation's images."""

    camera: Camera
    patients: Patients
    habit: Habit
    share: float


# Shares follow FedSM's Table 1, stretched so that the largest site has ten times the images of the smallest.
HOSPITALS: tuple[Hospital, ...] = (
    Hospital(
        Camera((0.80, 0.44, 0.20), field_radius=0.49, vignetting=0.35, noise=0.02, blur=0.006),
        Patients(0.27, (0.10, 0.0), cup_ratio=0.55, lesions=0.5),
        Habit(cup=1.0),
        share=100,
    ),
    Hospital(
        Camera((0.62, 0.27, 0.15), field_radius=0.57, vignetting=0.45, noise=0.035, blur=0.008, vessels=1.1),
        Patients(0.24, (0.14, 0.0), cup_ratio=0.60, lesions=2.0),
        Habit(cup=0.80, disc=0.97),
        share=195,
    ),
    Hospital(
        Camera(
            (0.78, 0.45, 0.36), field_radius=0.95, vignetting=0.25, noise=0.015, blur=0.010, vessels=0.8, mottling=0.09
        ),
        Patients(0.37, (0.0, 0.0), cup_ratio=0.55, lesions=0.3),
        Habit(cup=1.24, disc=1.04),
        share=88,
    ),
    Hospital(
        Camera((0.68, 0.27, 0.07), field_radius=0.53, vignetting=0.35, noise=0.02, blur=0.006, vessels=1.1),
        Patients(0.23, (0.15, 0.0), cup_ratio=0.56, lesions=2.0),
        Habit(cup=1.24, disc=1.03),
        share=460,
    ),
    Hospital(
        Camera((0.30, 0.52, 0.44), 0.85, 1.15, 0.46, 0.84, vignetting=0.6, noise=0.05, grain=0.012, vessels=1.4),
        Patients(0.30, (-0.04, 0.05), disc_wander=0.07, cup_ratio=0.64, lesions=5.0),
        Habit(cup=0.88, disc=0.95),
        share=160,
    ),
    Hospital(
        Camera(
            (0.74, 0.49, 0.18), field_radius=0.80, vignetting=0.25, noise=0.03, blur=0.007, vessels=0.8, mottling=0.07
        ),
        Patients(0.35, (0.02, 0.0), cup_ratio=0.56, lesions=0.5),
        Habit(cup=0.82, disc=0.98),
        share=900,
    ),
)

# Its images fall between those of the others, so that neither any one personal model nor the global one is made for it.
OUTSIDE = Hospital(
    Camera((0.72, 0.40, 0.28), field_radius=0.50, field_height=0.92, vignetting=0.4, noise=0.03, blur=0.009),
    Patients(0.29, (0.08, 0.02), cup_ratio=0.56, lesions=1.5),
    Habit(cup=1.0),
    share=1,
)


def hospital(index: int) -> Hospital:
    """The hospital with this index, from 0; beyond the sixth, the six again with another tint, zoom and habit."""
    turn, base = divmod(index, len(HOSPITALS))
    model = HOSPITALS[base]
    if turn == 0:
        return model
    rng = np.random.default_rng([20, index])
    red, green, blue = (
        float(np.clip(part * factor, 0.03, 0.9))
        for part, factor in zip(model.camera.tint, rng.uniform(0.75, 1.25, 3), strict=True)
    )
    return replace(
        model,
        camera=replace(model.camera, tint=(red, green, blue), noise=model.camera.noise * float(rng.uniform(0.6, 1.8))),
        patients=replace(model.patients, disc_diameter=model.patients.disc_diameter * float(rng.uniform(0.88, 1.12))),
        habit=replace(model.habit, cup=float(rng.uniform(0.8, 1.25))),
    )
