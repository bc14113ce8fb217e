"""A synthetic retina federation on disk, in the data-root layout: optic disc and cup in fundus photographs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.synthetic import retina_sites
from fedsuper.data.synthetic.drawing import Grid
from fedsuper.data.synthetic.eye import eye_sites
from fedsuper.data.synthetic.eye.eye_photo import photograph_eyes
from fedsuper.data.synthetic.eye.eye_sites import EyeHospital, eye_hospital
from fedsuper.data.synthetic.eye.optic_disc import around, draw_discs, draw_mask
from fedsuper.data.synthetic.federation_folders import Cases, FederationWriter
from fedsuper.data.synthetic.retina_render import draw_eyes, draw_labels, photograph
from fedsuper.data.synthetic.retina_sites import Hospital, hospital
from fedsuper.data.synthetic.shift import Difficulty
from fedsuper.errors import FedSuperError

DATASET = {"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}}
DEFAULT_IMAGES = 500
OUTSIDE_IMAGES = 40
FEWEST_IMAGES = 4  # a site must split into train, val and test
USUAL_FEWEST = 12  # of a site, where the total allows
STACK = 16  # images drawn together: enough for numpy, few enough for the processor's cache

Pictures = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def render(site: Hospital | EyeHospital, key: list[int], count: int, size: int) -> Iterator[Pictures]:
    """Stacks of (images, labels) of a site; the same `key` gives the same pixels."""
    grid = Grid(size)
    for first in range(0, count, STACK):
        rng = np.random.default_rng([*key, first])
        yield _stack(site, min(STACK, count - first), grid, rng)


def _stack(site: Hospital | EyeHospital, count: int, grid: Grid, rng: np.random.Generator) -> Pictures:
    if isinstance(site, EyeHospital):
        discs = draw_discs(site.mix, count, rng)
        seen = around(discs, grid)
        mask = draw_mask(discs, seen, site.hand, rng)
        return photograph_eyes(discs, seen, site, grid, rng), mask
    eyes = draw_eyes(site.patients, count, rng)
    labels = draw_labels(eyes, site.habit, grid, rng)
    return photograph(eyes, site, grid, rng), labels


def _write_site(folder: Path, site: Hospital | EyeHospital, key: list[int], count: int, size: int) -> Iterator[int]:
    """Write a site's photographs as PNG pairs, yielding after each stack how many images it had."""
    from PIL import Image

    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True)
    number = 0
    for images, labels in render(site, key, count, size):
        for image, label in zip(images, labels, strict=True):
            number += 1
            Image.fromarray(image).save(folder / "images" / f"{number:04d}.png", compress_level=1)
            Image.fromarray(label).save(folder / "labels" / f"{number:04d}.png", compress_level=6)
        yield len(images)


def _cases(sites: int, images: int | None) -> Cases:
    total = DEFAULT_IMAGES if images is None else images
    fewest = FEWEST_IMAGES * sites
    if total < fewest:
        raise FedSuperError(f"synth: {sites} sites need --images of at least {fewest}, 4 per site, got {total}")
    return Cases(total, USUAL_FEWEST, OUTSIDE_IMAGES)


def _hospital(index: int, difficulty: Difficulty, shift: tuple[str, ...]) -> Hospital | EyeHospital:
    return hospital(index) if difficulty == "easy" else eye_hospital(index, shift)


def _beside(kind: str, difficulty: Difficulty) -> Hospital | EyeHospital:
    return retina_sites.OUTSIDE if difficulty == "easy" else eye_sites.OUTSIDE[kind]


write_retina = FederationWriter(DATASET, 128, _cases, _hospital, _beside, _write_site).write
