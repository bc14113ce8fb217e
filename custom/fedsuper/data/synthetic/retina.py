"""A synthetic retina federation on disk, in the data-root layout: optic disc and cup in fundus photographs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.synthetic.retina_render import Grid, draw_eyes, draw_labels, photograph
from fedsuper.data.synthetic.retina_sites import OUTSIDE, Hospital, hospital, share_out
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_json

DATASET = {"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}}
DEFAULT_IMAGES = 500
OUTSIDE_IMAGES = 40
SMALLEST_SIZE = 32
STACK = 16  # images drawn together: enough for numpy, few enough for the processor's cache


def render(
    site: Hospital, key: list[int], count: int, size: int
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """Stacks of (images, labels) of a site; the same `key` gives the same pixels."""
    grid = Grid(size)
    for first in range(0, count, STACK):
        rng = np.random.default_rng([*key, first])
        eyes = draw_eyes(site.patients, min(STACK, count - first), rng)
        labels = draw_labels(eyes, site.habit, grid, rng)
        yield photograph(eyes, site, grid, rng), labels


def write_retina(
    out: Path,
    sites: int = 6,
    images: int | None = None,
    size: int = 128,
    seed: int = 0,
    outside: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a data root of `sites` hospitals with `images` images in all; the same arguments give the same bytes.

    `outside` adds the data root `<out>-outside` with one hospital that nobody trains on. `progress` is called with
    images written and images in all.
    """
    out = Path(out)
    total = DEFAULT_IMAGES if images is None else images
    _check(sites, total, size, seed)
    hospitals = [hospital(index) for index in range(sites)]
    counts = share_out(total, [one.share for one in hospitals])
    roots = [(out, {f"site-{n + 1}": (one, [seed, n], counts[n]) for n, one in enumerate(hospitals)})]
    if outside:
        roots.append((out.with_name(out.name + "-outside"), {"outside": (OUTSIDE, [seed, 1_000_000], OUTSIDE_IMAGES)}))
    for root, _ in roots:
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise FedSuperError(f"synth: {root} exists and is not an empty folder; choose another --out or remove it")
    done, in_all = 0, total + (OUTSIDE_IMAGES if outside else 0)
    for root, content in roots:
        with _whole_folder(root) as draft:
            atomic_write_json(draft / "dataset.json", DATASET)
            for name, (site, key, count) in content.items():
                for written in _write_site(draft / name, render(site, key, count, size)):
                    done += written
                    if progress is not None:
                        progress(done, in_all)


def _check(sites: int, images: int, size: int, seed: int) -> None:
    if sites < 1:
        raise FedSuperError(f"synth: --sites must be at least 1, got {sites}")
    if images < 4 * sites:
        raise FedSuperError(f"synth: {sites} sites need --images of at least {4 * sites}, 4 per site, got {images}")
    if size < SMALLEST_SIZE:
        raise FedSuperError(f"synth: --size must be at least {SMALLEST_SIZE} pixels, got {size}")
    if seed < 0:
        raise FedSuperError(f"synth: --seed must not be negative, got {seed}")


def _write_site(folder: Path, stacks: Iterator[tuple[NDArray[np.uint8], NDArray[np.uint8]]]) -> Iterator[int]:
    """Write stacks as PNG pairs, yielding after each stack how many images it had."""
    from PIL import Image

    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True)
    number = 0
    for images, labels in stacks:
        for image, label in zip(images, labels, strict=True):
            number += 1
            Image.fromarray(image).save(folder / "images" / f"{number:04d}.png", compress_level=1)
            Image.fromarray(label).save(folder / "labels" / f"{number:04d}.png", compress_level=6)
        yield len(images)


@contextmanager
def _whole_folder(root: Path) -> Iterator[Path]:
    """A draft folder that becomes `root` when all went well, and vanishes otherwise."""
    root.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{root.name}-", dir=root.parent))
    try:
        yield draft
        draft.chmod(0o755)
        os.replace(draft, root)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
