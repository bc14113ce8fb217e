"""Names beside axes and at the ends of lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_LABEL = 16
LABEL_INCHES = 0.19  # a line of text at the end of a curve


def short(name: str, longest: int = LONGEST_LABEL) -> str:
    """A name that fits beside an axis; the middle goes, because endings tell names apart."""
    if len(name) <= longest:
        return name
    head = (longest - 1) // 2
    return f"{name[:head]}…{name[-(longest - 1 - head) :]}"


def count_rounds(axes: Axes) -> None:
    """A horizontal axis of whole rounds."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("rounds completed")


def label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], inches: float) -> None:
    """Name each line (end, label, color) at its right end, pushed apart where ends are close.

    `inches` is the height of the axes.
    """
    low, high = axes.get_ylim()
    ordered = sorted(ends)
    places = spread([value for value, _, _ in ordered], (high - low) * LABEL_INCHES / inches, low, high)
    for (_, label, color), y in zip(ordered, places, strict=True):
        axes.annotate(
            short(label, 26),
            (1, y),
            xycoords=("axes fraction", "data"),
            xytext=(7, 0),
            textcoords="offset points",
            color=color,
            va="center",
            fontweight="bold",
            annotation_clip=False,
        )


def spread(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The places nearest to the rising `values` (least squares) that lie at least `gap` apart.

    With u_i = v_i - i gap the gaps become "not falling", which pooling adjacent violators solves. Places stay within
    low..high as far as there is room.
    """
    blocks: list[tuple[float, int]] = []  # mean and size
    for index, value in enumerate(values):
        mean, size = value - index * gap, 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        blocks.append((mean, size))
    top = high - (len(values) - 1) * gap
    flat = [min(max(mean, low), max(top, low)) for mean, size in blocks for _ in range(size)]
    return [place + index * gap for index, place in enumerate(flat)]
