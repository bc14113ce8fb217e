"""Synthetic photographs cut as the real ones at hand are: a square around the disc, not quite in its middle."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsuper.files import atomic_write_json

SIDE = 1.7  # disc diameters
JITTER = 0.12  # of the side: how far the disc may lie from the middle
DATASET = {"task": "retina", "channels": 3, "regions": {"disc": [1]}}


def write_crops(
    root: Path, site: str, pictures: Iterable[tuple[NDArray[np.uint8], NDArray[np.uint8]]], seed: int
) -> None:
    """A site of a data root whose only region is the disc, cup included, in squares of about `SIDE` diameters."""
    from PIL import Image

    for kind in ("images", "labels"):
        (root / site / kind).mkdir(parents=True)
    atomic_write_json(root / "dataset.json", DATASET)
    rng = np.random.default_rng(seed)
    pairs = (pair for stack in pictures for pair in zip(*stack, strict=True))
    for number, (picture, label) in enumerate(pairs):
        rows, columns = _square(label > 0, rng)
        Image.fromarray(picture[rows, columns]).save(root / site / "images" / f"{number:04d}.png", compress_level=1)
        disc = (label[rows, columns] > 0).astype(np.uint8)
        Image.fromarray(disc).save(root / site / "labels" / f"{number:04d}.png")


def _square(disc: NDArray[np.bool_], rng: np.random.Generator) -> tuple[slice, slice]:
    """Rows and columns around the disc, pushed back into the picture where they would leave it."""
    size = disc.shape[0]
    rows, columns = (np.flatnonzero(disc.any(axis=axis)) for axis in (1, 0))
    wide = max(np.ptp(rows), np.ptp(columns)) + 1 if rows.size else size
    side = int(min(size, round(SIDE * wide * rng.uniform(0.92, 1.08))))
    starts = []
    for found in (rows, columns):
        middle = (found[0] + found[-1]) / 2 if found.size else size / 2
        first = middle - side / 2 + side * rng.uniform(-JITTER, JITTER)
        starts.append(int(np.clip(round(first), 0, size - side)))
    return slice(starts[0], starts[0] + side), slice(starts[1], starts[1] + side)
