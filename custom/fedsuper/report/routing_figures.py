"""Figures of test-time routing: the routing matrix as a heat map, Dice against time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedsuper.report.heatmaps import heat_map
from fedsuper.report.style import FIXED_COLOURS, MUTED, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def routing_heat_map(coefficients: Mapping[str, Sequence[float]], experts: Sequence[str]) -> Figure:
    """R: layers, numbered in the order they run, by experts. The colours span the matrix: coefficients start equal."""
    rows = [list(row) for row in coefficients.values()]
    values = [value for row in rows for value in row]
    names = [str(number) for number in range(1, len(rows) + 1)]
    span = (min(values), max(values))
    return heat_map(rows, names, list(experts), "layer", "model", span=span, decimals=3)


def time_curve(points: Sequence[Mapping[str, float]], references: Mapping[str, float] | None = None) -> Figure:
    """Mean Dice over images, with its spread, against seconds an image; `references` are modes that take no tuning."""
    seconds = [point["seconds"] for point in points]
    dice = [point["dice"] for point in points]
    low = [point["dice"] - point["spread"] for point in points]
    high = [min(1.0, point["dice"] + point["spread"]) for point in points]
    colour = FIXED_COLOURS["fedsm"]
    with figure(5.4, 3.2) as (made, (axes,)):
        axes.fill_between(seconds, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(seconds, dice, color=colour, marker="o", markersize=3.5)
        for name, value in (references or {}).items():
            axes.axhline(value, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
            axes.annotate(
                name, (seconds[-1], value), xytext=(0, 3), textcoords="offset points", ha="right", color=MUTED
            )
        axes.set_xlabel("seconds an image")
        axes.set_ylabel("Dice")
        return made
