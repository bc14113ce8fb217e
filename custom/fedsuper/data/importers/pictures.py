"""Fundus photographs and their masks: reading, mapping mask values to 0 background, 1 rim, 2 cup, votes of raters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.importers.base import Kept, Made, Pair, Unusable, torn

Mask = NDArray[np.bool_]
Label = NDArray[np.uint8]

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
PLAIN_SUFFIX = {".jpeg": ".jpg", ".tiff": ".tif"}


def read_picture(path: Path, mode: str | None = None) -> NDArray[np.uint8]:
    """The pixels of a picture, converted to a pillow `mode` ("L", "RGB") where one is given."""
    from PIL import Image

    try:
        with Image.open(path) as picture:
            picture.load()
            return np.asarray(picture.convert(mode) if mode else picture)
    # pillow raises these, and only these, for files it cannot decode to the end
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise torn(path, error) from None


def disc_and_cup(disc: Mask, cup: Mask) -> Label:
    """One label of two nested masks: 1 where only disc, 2 in the cup; cup pixels off the disc count as no cup."""
    if disc.shape != cup.shape:
        raise Unusable(f"the disc mask is {_size(disc)} pixels, the cup mask {_size(cup)}")
    return disc.astype(np.uint8) + (disc & cup).astype(np.uint8)


def foreground(mask: NDArray[np.uint8]) -> Mask:
    """The bright half of a two-valued mask, whether it is stored as 0/1 or 0/255."""
    return mask > mask.max(initial=0) / 2


def majority(votes: NDArray[np.integer], raters: int) -> Mask:
    """Where more than half of the raters agree; an even split is no majority."""
    return 2 * votes > raters


def votes_of_soft_map(soft: NDArray[np.uint8], raters: int) -> NDArray[np.int64]:
    """How many raters marked each pixel, from their masks' average scaled to 0..255."""
    return np.rint(soft.astype(np.float64) * raters / 255).astype(np.int64)


def vote(masks: Sequence[Mask]) -> Mask:
    """The majority of the raters' masks."""
    return majority(np.sum([mask.astype(np.int64) for mask in masks], axis=0), len(masks))


def from_grey_levels(mask: NDArray[np.uint8], path: Path) -> Label:
    """A label of a REFUGE-style mask: 255 background, 128 rim, 0 cup; each pixel goes to the nearest of the three."""
    edge = np.concatenate([mask[0], mask[-1], mask[:, 0], mask[:, -1]])
    if np.mean(edge >= 192) < 0.5:  # the cup is never at the edge: another coding, which would turn inside out
        shown = ", ".join(str(value) for value in np.unique(mask)[:6])
        raise Unusable(f"{path.name} should hold 255 background, 128 rim, 0 cup; it holds {shown}")
    return np.select([mask < 64, mask < 192], [np.uint8(2), np.uint8(1)], default=np.uint8(0)).astype(np.uint8)


def keep(path: Path) -> Kept:
    """The picture file as it is, under a usual ending."""
    suffix = path.suffix.lower()
    return Kept(path, PLAIN_SUFFIX.get(suffix, suffix))


def png(pixels: NDArray[np.uint8]) -> Made:
    """A PNG file of these pixels."""

    def write(path: Path) -> None:
        from PIL import Image

        Image.fromarray(pixels).save(path)

    return Made(".png", write)


def photograph_pair(image: Path, read_label: Callable[[], Label]) -> Pair:
    """A photograph that is kept and the label read for it; both must be of one size."""
    pixels = read_picture(image)
    label = read_label()
    require_one_size(pixels, label)
    return Pair(keep(image), png(label))


def require_one_size(pixels: NDArray[np.uint8], label: NDArray[np.generic]) -> None:
    """Refuse a pair whose label is not of the image's size."""
    if pixels.shape[:2] != label.shape[:2]:
        raise Unusable(f"the image is {_size(pixels)} pixels, its label {_size(label)}")


def _size(pixels: NDArray[np.generic]) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]}"
