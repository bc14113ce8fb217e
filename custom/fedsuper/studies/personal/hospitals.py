"""Federations to judge a choice by: few images to learn and to choose from, many to be judged on.

Training and validation images are shared out as `fedsuper synth` does, a half and a quarter of each site's part of
`IMAGES`, so that the smallest site validates on a handful. Beside them every site has `TEST` images of its own that
nothing is chosen by: the table then measures the rule and not the luck of a small test split.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedsuper.data.splits import SPLITS_FILE
from fedsuper.data.synthetic.eye.eye_sites import eye_hospital
from fedsuper.data.synthetic.federation_folders import share_out
from fedsuper.data.synthetic.retina import DATASET, Pictures, render
from fedsuper.files import atomic_write_json

SITES, IMAGES, TEST, PIXELS = 6, 320, 200, 40


def write_hospitals(root: Path, seed: int, images: int = IMAGES, test: int = TEST, sites: int = SITES) -> None:
    """A data root of synthetic retina hospitals with fixed splits; the same arguments give the same bytes."""
    hospitals = [eye_hospital(index) for index in range(sites)]
    for index, part in enumerate(share_out(images, [one.share for one in hospitals])):
        train, val = part // 2, max(1, part // 4)
        folder = root / f"site-{index + 1}"
        names = write_images(folder, render(hospitals[index], [seed, index], train + val + test, PIXELS))
        parts = {"train": names[:train], "val": names[train:train + val], "test": names[train + val:]}
        atomic_write_json(folder / SPLITS_FILE, parts)
    atomic_write_json(root / "dataset.json", DATASET)


def write_images(folder: Path, stacks: Iterable[Pictures]) -> list[str]:
    """PNG pairs; the names that were given, in order."""
    from PIL import Image

    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True)
    pairs = [pair for images, labels in stacks for pair in zip(images, labels, strict=True)]
    names = [f"{number:04d}" for number in range(1, len(pairs) + 1)]
    for name, (image, label) in zip(names, pairs, strict=True):
        Image.fromarray(image).save(folder / "images" / f"{name}.png", compress_level=1)
        Image.fromarray(label).save(folder / "labels" / f"{name}.png")
    return names
