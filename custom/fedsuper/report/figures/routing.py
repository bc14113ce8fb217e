"""Figures of test-time routing: the routing matrix, Dice against time, the loss it lowers, the models it mixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedsuper.report.figures.heat_map import heat_map
from fedsuper.report.figures.labels import short
from fedsuper.report.figures.style import FIXED_COLORS, METHOD_COLORS, MUTED, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def routing_heat_map(coefficients: Mapping[str, Sequence[float]], experts: Sequence[str]) -> Figure:
    """R: layers, numbered in the order they run, by experts. The colors span the matrix: coefficients start equal."""
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
    color = FIXED_COLORS["fedsm"]
    with figure(5.4, 3.2) as (made, (axes,)):
        axes.fill_between(seconds, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(seconds, dice, color=color, marker="o", markersize=3.5)
        for name, value in (references or {}).items():
            axes.axhline(value, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
            axes.annotate(
                name, (seconds[-1], value), xytext=(0, 3), textcoords="offset points", ha="right", color=MUTED
            )
        axes.set_xlabel("seconds an image")
        axes.set_ylabel("Dice")
        return made


def variation_bars(by_left: Mapping[str, Mapping[str, float]]) -> Figure:
    """How far the inside models lie from the global one, by the site that was left out: their mean, and each as a dot.

    IOP-FL, Fig. 9 (left).
    """
    with figure(4.6, 3.0) as (made, (axes,)):
        for place, inside in enumerate(by_left.values()):
            values = list(inside.values())
            axes.bar(place, sum(values) / len(values), color=METHOD_COLORS[place % len(METHOD_COLORS)], alpha=0.5)
            axes.plot([place] * len(values), values, ".", color=METHOD_COLORS[place % len(METHOD_COLORS)])
        axes.set_xticks(range(len(by_left)), [short(site) for site in by_left])
        axes.grid(axis="x", visible=False)
        axes.set_ylabel("mean distance of a layer")
        return made


def loss_curves(by_left: Mapping[str, Sequence[Mapping[str, float]]]) -> Figure:
    """The test-time loss by epoch at every site left out, mean and spread over its images (IOP-FL, Fig. 9, right)."""
    with figure(4.6, 3.0) as (made, (axes,)):
        for place, (site, points) in enumerate(by_left.items()):
            color = METHOD_COLORS[place % len(METHOD_COLORS)]
            epochs = [point["epoch"] for point in points]
            mean = [point["tuning_loss"] for point in points]
            low = [point["tuning_loss"] - point["tuning_spread"] for point in points]
            high = [point["tuning_loss"] + point["tuning_spread"] for point in points]
            axes.fill_between(epochs, low, high, color=color, alpha=0.12, linewidth=0)
            axes.plot(epochs, mean, color=color, label=short(site))
        axes.set_xlabel("epochs of tuning")
        axes.set_ylabel("test-time loss")
        made.legend(loc="outside upper left", ncols=min(len(by_left), 4), handletextpad=0.4, columnspacing=1.4)
        return made
