"""Matrices as labeled heat maps: site by model, confusion, selection frequencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedsuper.report.figures.labels import LONGEST_LABEL, short
from fedsuper.report.figures.style import HEAT, INK, MUTED, cell_colors, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELL_WIDTH, CELL_HEIGHT = 0.5, 0.4


def share_texts(values: Sequence[Sequence[float]]) -> list[list[str]]:
    """Shares as cell texts; nothing is a dot, so that what is there stands out."""
    return [[f"{value:.2f}" if value else "·" for value in row] for row in values]


def heat_map(
    values: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    row_title: str,
    column_title: str,
    span: tuple[float, float] = (0.0, 1.0),
    texts: Sequence[Sequence[str]] | None = None,
    framed: Sequence[tuple[int, int]] = (),
    decimals: int = 2,
) -> Figure:
    """Colored cells with their numbers; `texts` replaces the numbers, `framed` cells (row, column) get an outline.

    NaN cells stay blank: the model does not exist or the site has no such image.
    """
    from matplotlib.patches import Rectangle

    low, high = span
    longest = max(map(len, rows), default=0)
    width = 0.6 + 0.075 * min(longest, LONGEST_LABEL) + CELL_WIDTH * len(columns)
    tilted = max(map(len, columns), default=0) > 7
    with figure(max(width, 2.6), 0.75 + CELL_HEIGHT * len(rows) + (0.5 if tilted else 0)) as (made, (axes,)):
        for y, row in enumerate(values):
            for x, value in enumerate(row):
                if value is None or math.isnan(value):
                    continue
                opacity, ink = cell_colors((value - low) / (high - low) if high > low else 1.0)
                axes.add_patch(Rectangle((x - 0.48, y - 0.47), 0.96, 0.94, facecolor=HEAT, alpha=opacity, linewidth=0))
                text = texts[y][x] if texts else f"{value:.{decimals}f}"
                axes.text(x, y, text, ha="center", va="center", color=ink, fontsize=9)
        for y, x in framed:
            axes.add_patch(Rectangle((x - 0.48, y - 0.47), 0.96, 0.94, fill=False, edgecolor=INK, linewidth=1.4))
        axes.set_xlim(-0.5, len(columns) - 0.5)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.grid(False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set_xticks(
            range(len(columns)),
            [short(name) for name in columns],
            rotation=35 if tilted else 0,
            ha="left" if tilted else "center",
            rotation_mode="anchor" if tilted else "default",
        )
        axes.set_yticks(range(len(rows)), [short(name) for name in rows])
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.tick_params(length=0, labelcolor=INK, pad=4)
        axes.set_xlabel(column_title, color=MUTED, labelpad=6)
        axes.set_ylabel(row_title, color=MUTED)
        return made
