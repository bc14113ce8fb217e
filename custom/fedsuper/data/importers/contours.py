"""Filled regions from contours that a rater drew on top of a photograph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.importers.base import Unusable
from fedsuper.data.importers.pictures import Mask

INK_DIFFERENCE = 30  # grey levels: above JPEG noise, far below the step of a drawn line
SPECK = 0.1  # a piece of ink shorter than this part of the longest line is a stray mark
GAPS = (0, 1, 2, 4)  # pixels by which broken lines are thickened, tried in turn, until they close


def nested_regions(photograph: NDArray[np.uint8], drawn: NDArray[np.uint8]) -> tuple[Mask, Mask]:
    """The outer and the inner region (disc, cup) of the two closed lines in `drawn` that `photograph` lacks.

    What is not exactly two nested closed lines is refused: a rater less does little harm, a wrong region does.
    """
    if photograph.shape != drawn.shape:
        raise Unusable("the drawing and the photograph differ in size")
    ink = np.abs(drawn.astype(np.int16) - photograph.astype(np.int16)).max(axis=2) > INK_DIFFERENCE
    if not ink.any():
        raise Unusable("nothing is drawn")
    box = _bounding_box(ink, margin=2 * max(GAPS))
    count = 0
    for gap in GAPS:
        regions = _closed_regions(ink[box], gap)
        count = len(regions)
        if count == 2:
            outer, inner = regions
            if not (inner & ~outer).any():
                return _uncropped(outer, box, ink.shape), _uncropped(inner, box, ink.shape)
    raise Unusable(f"expected two nested closed lines, found {count}")


def _closed_regions(ink: Mask, gap: int) -> list[Mask]:
    """The filled closed lines, largest first."""
    from scipy import ndimage

    eight = np.ones((3, 3), dtype=bool)
    thick = ndimage.binary_dilation(ink, eight, iterations=gap) if gap else ink
    pieces, count = ndimage.label(thick, eight)
    sizes = np.bincount(pieces.ravel())[1:]
    filled: list[Mask] = []
    for number in range(1, count + 1):
        if sizes[number - 1] < SPECK * sizes.max():
            continue
        line = pieces == number
        region = ndimage.binary_fill_holes(line)
        if region.sum() > 2 * line.sum():  # an open line encloses nothing
            filled.append(ndimage.binary_erosion(region, eight, iterations=gap) if gap else region)
    return sorted(filled, key=lambda region: -int(region.sum()))


def _bounding_box(mask: Mask, margin: int) -> tuple[slice, slice]:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return (
        slice(max(0, int(rows[0]) - margin), int(rows[-1]) + margin + 1),
        slice(max(0, int(columns[0]) - margin), int(columns[-1]) + margin + 1),
    )


def _uncropped(region: Mask, box: tuple[slice, slice], shape: tuple[int, ...]) -> Mask:
    whole = np.zeros(shape, dtype=bool)
    whole[box] = region
    return whole
