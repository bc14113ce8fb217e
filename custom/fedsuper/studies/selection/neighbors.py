"""Hospitals that never took part and look like one that did: drawn at random, each near one of the six eye hospitals.

A neighbor has the camera of a site a little off (tint within 12%, noise within 40), patients between the common and
that site's, and a hand of its own: how it draws cup and disc follows no site.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from fedsuper.data.draft_folder import draft_beside
from fedsuper.data.synthetic.eye.eye_sites import AMOUNTS, COMMON_CAMERA, COMMON_MIX, EXTREMES, EyeHospital, Hand
from fedsuper.data.synthetic.retina import DATASET, render
from fedsuper.data.synthetic.shift import towards
from fedsuper.files import atomic_write_json
from fedsuper.studies.personal.hospitals import write_images

IMAGES = 40  # of every neighbor
DRAWN = 31  # in the key of every draw


def neighbor(number: int) -> EyeHospital:
    """Number 0 is near the first site, 6 is near it again."""
    base = number % len(EXTREMES)
    camera, mix, _, _ = EXTREMES[base]
    rng = np.random.default_rng([DRAWN, number])

    def about(value: float, part: float) -> float:
        return float(value * rng.uniform(1 - part, 1 + part))

    red, green, blue = (min(0.95, about(color, 0.12)) for color in camera.tint)
    near = replace(camera, tint=(red, green, blue), noise=about(camera.noise, 0.4),
                   vignetting=about(camera.vignetting, 0.15), field_radius=min(0.98, about(camera.field_radius, 0.05)))
    hand = Hand(cup=float(rng.uniform(0.75, 1.35)), disc=float(rng.uniform(0.95, 1.06)),
                atrophy=float(rng.uniform(0, 0.8)))
    return EyeHospital(towards(COMMON_CAMERA, near, AMOUNTS[base].camera),
                       towards(COMMON_MIX, mix, float(rng.uniform(0.3, 1.0))), hand, 1, AMOUNTS[base])


def write_neighbors(root: Path, count: int, pixels: int) -> list[Path]:
    """The folders of the first neighbors' images; what is there is not drawn again."""
    folders = [root / f"neighbor-{number + 1}" for number in range(count)]
    for number, folder in enumerate(folders):
        if not folder.exists():
            with draft_beside(folder) as draft:
                write_images(draft, render(neighbor(number), [DRAWN, number, 1], IMAGES, pixels))
                draft.rename(folder)
    atomic_write_json(root / "dataset.json", DATASET)
    return folders
