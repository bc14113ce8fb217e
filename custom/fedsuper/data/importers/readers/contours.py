"""Filled regions from contours that a rater drew on top of a photograph."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.importers.base import UnusableCaseError
from fedsuper.data.importers.readers.pictures import Mask

FAINTEST_INK = 60  # sum over the colors: above the noise of a photograph saved twice
INK_SHARES = (0.5, 0.25)  # of the strongest difference: ink, against the halo JPEG puts around it; tried in turn
SPECK = 0.1  # a piece of ink shorter than this part of the longest line is a stray mark
GAPS = (0, 1, 2, 4)  # pixels by which broken lines are thickened, tried in turn, until they close


def nested_regions(photograph: NDArray[np.uint8], drawn: NDArray[np.uint8]) -> tuple[Mask, Mask]:
    """The outer and the inner region (disc, cup) of the two closed lines in `drawn` that `photograph` lacks.

    What is not exactly two nested closed lines is refused: a rater less does little harm, a wrong region does.
    """
    if photograph.shape != drawn.shape:
        raise UnusableCaseError("the drawing and the photograph differ in size")
    difference = np.abs(drawn.astype(np.int16) - photograph.astype(np.int16)).sum(axis=2)
    if difference.max() <= FAINTEST_INK:
        raise UnusableCaseError("nothing is drawn")
    box = _bounding_box(difference > FAINTEST_INK, margin=2 * max(GAPS))
    counts = set()
    for share, gap in product(INK_SHARES, GAPS):
        ink = difference[box] > max(FAINTEST_INK, share * difference.max())
        regions = _closed_regions(ink, gap)
        counts.add(len(regions))
        if len(regions) > 2:
            break  # other settings would only hide a line
        if len(regions) == 2 and not (regions[1] & ~regions[0]).any():
            outer, inner = (_uncropped(region, box, difference.shape) for region in regions)
            return outer, inner
    raise UnusableCaseError(f"expected two nested closed lines, found {max(counts)}")


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
        if (region & ~line).sum() > line.sum() / 4:  # an open line encloses next to nothing
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
