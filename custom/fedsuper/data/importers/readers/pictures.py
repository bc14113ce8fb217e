"""Fundus photographs and their masks: reading, mapping mask values to 0 background, 1 rim, 2 cup, votes of raters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from fedsuper.data.images.raster import read_pixels
from fedsuper.data.importers.base import Kept, Made, Pair, UnusableCaseError

Mask = NDArray[np.bool_]
Label = NDArray[np.uint8]

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
PLAIN_SUFFIX = {".jpeg": ".jpg", ".tiff": ".tif"}


def read_gray(path: Path) -> NDArray[np.uint8]:
    """The pixels of a mask stored in gray levels, in whatever color mode."""
    return read_pixels(path)[..., 0]


def disc_and_cup(disc: Mask, cup: Mask) -> Label:
    """One label of two nested masks: 1 where only disc, 2 in the cup; cup pixels off the disc count as no cup."""
    if disc.shape != cup.shape:
        raise UnusableCaseError(f"the disc mask is {_size(disc)} pixels, the cup mask {_size(cup)}")
    return disc.astype(np.uint8) + (disc & cup).astype(np.uint8)


def foreground(mask: NDArray[np.uint8]) -> Mask:
    """The bright half of a two-valued mask, whether it is stored as 0/1 or 0/255."""
    return np.asarray(mask > mask.max(initial=0) / 2)


def majority(votes: NDArray[np.integer], raters: int) -> Mask:
    """Where more than half of the raters agree; an even split is no majority."""
    return 2 * votes > raters


def votes_of_soft_map(soft: NDArray[np.uint8], raters: int) -> NDArray[np.int64]:
    """How many raters marked each pixel, from their masks' average scaled to 0..255."""
    return np.rint(soft.astype(np.float64) * raters / 255).astype(np.int64)


def vote(masks: Sequence[Mask]) -> Mask:
    """The majority of the raters' masks."""
    return majority(np.sum([mask.astype(np.int64) for mask in masks], axis=0), len(masks))


def from_gray_levels(mask: NDArray[np.uint8], path: Path) -> Label:
    """A label of a REFUGE-style mask: 255 background, 128 rim, 0 cup; each pixel goes to the nearest of the three."""
    edge = np.concatenate([mask[0], mask[-1], mask[:, 0], mask[:, -1]])
    if np.mean(edge >= 192) < 0.5:  # the cup is never at the edge: another coding, which would turn inside out
        shown = ", ".join(str(value) for value in np.unique(mask)[:6])
        raise UnusableCaseError(f"{path.name} should hold 255 background, 128 rim, 0 cup; it holds {shown}")
    return np.select([mask < 64, mask < 192], [np.uint8(2), np.uint8(1)], default=np.uint8(0)).astype(np.uint8)


def keep(path: Path) -> Kept:
    """The picture file as it is, under a usual ending."""
    suffix = path.suffix.lower()
    return Kept(path, PLAIN_SUFFIX.get(suffix, suffix))


def png(pixels: NDArray[np.uint8]) -> Made:
    """A PNG file of these pixels."""
    return Made(".png", lambda path: Pillow.fromarray(pixels).save(path))


def photograph_pair(image: Path, read_label: Callable[[], Label]) -> Pair:
    """A photograph that is kept and the label read for it; both must be of one size."""
    pixels = read_pixels(image)
    label = read_label()
    require_one_size(pixels, label)
    return Pair(keep(image), png(label))


def require_one_size(pixels: NDArray[np.uint8], label: NDArray[np.generic]) -> None:
    """Refuse a pair whose label is not of the image's size."""
    if pixels.shape[:2] != label.shape[:2]:
        raise UnusableCaseError(f"the image is {_size(pixels)} pixels, its label {_size(label)}")


def _size(pixels: NDArray[np.generic]) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]}"
