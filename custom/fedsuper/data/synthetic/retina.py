"""A synthetic retina federation on disk, in the data-root layout: optic disc and cup in fundus photographs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.synthetic import retina_sites
from fedsuper.data.synthetic.drawing import Grid
from fedsuper.data.synthetic.eye import eye_sites
from fedsuper.data.synthetic.eye.eye_photo import photograph_eyes
from fedsuper.data.synthetic.eye.eye_sites import EyeHospital, eye_hospital
from fedsuper.data.synthetic.eye.optic_disc import around, draw_discs, draw_mask
from fedsuper.data.synthetic.federation_folders import OUTSIDE_KEY, SitePlan, check_request, write_roots
from fedsuper.data.synthetic.retina_render import draw_eyes, draw_labels, photograph
from fedsuper.data.synthetic.retina_sites import Hospital, hospital, share_out
from fedsuper.data.synthetic.shift import PARTS, Difficulty, outside_kind
from fedsuper.errors import FedSuperError

DATASET = {"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}}
DEFAULT_IMAGES = 500
OUTSIDE_IMAGES = 40
FEWEST_IMAGES = 4  # a site must split into train, val and test
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


def write_retina(
    out: Path,
    sites: int = 6,
    images: int | None = None,
    size: int = 128,
    seed: int = 0,
    outside: bool | str = False,
    progress: Callable[[int, int], None] | None = None,
    difficulty: Difficulty = "real",
    shift: tuple[str, ...] = PARTS,
) -> None:
    """Write a data root of `sites` hospitals with `images` images in all; the same arguments give the same bytes.

    `outside` ("near" or "unlike" the others) adds the data root `<out>-outside` with one hospital that nobody trains
    on. `difficulty` "easy" draws clear discs that are learned from a few images, for quick tests. `shift` are the parts
    in which hospitals differ. `progress` is called with images written and images in all.
    """
    out = Path(out)
    total = DEFAULT_IMAGES if images is None else images
    check_request(sites, size, seed, difficulty, shift)
    if total < FEWEST_IMAGES * sites:
        fewest = FEWEST_IMAGES * sites
        raise FedSuperError(f"synth: {sites} sites need --images of at least {fewest}, 4 per site, got {total}")
    hospitals = [hospital(n) if difficulty == "easy" else eye_hospital(n, shift) for n in range(sites)]
    counts = share_out(total, [one.share for one in hospitals])
    plans = [
        SitePlan(f"site-{n + 1}", count, partial(_write_site, site=one, key=[seed, n], count=count, size=size))
        for n, (one, count) in enumerate(zip(hospitals, counts, strict=True))
    ]
    roots = {out: plans}
    if kind := outside_kind(outside):
        beside = retina_sites.OUTSIDE if difficulty == "easy" else eye_sites.OUTSIDE[kind]
        write = partial(_write_site, site=beside, key=[seed, OUTSIDE_KEY], count=OUTSIDE_IMAGES, size=size)
        roots[out.with_name(out.name + "-outside")] = [SitePlan("outside", OUTSIDE_IMAGES, write)]
    write_roots(roots, DATASET, progress)


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
