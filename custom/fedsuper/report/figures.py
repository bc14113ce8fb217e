"""The figures about training and results. Each takes plain values and returns a matplotlib figure (see `style`)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from fedsuper.report.curves import Curve
from fedsuper.report.style import GRID, INK, MUTED, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LONGEST_LABEL = 16
LABEL_INCHES = 0.19  # a line of text at the end of a curve
AROUND_AXES = 0.6  # inches that ticks and a title take from a figure's height


def short(name: str, longest: int = LONGEST_LABEL) -> str:
    """A name that fits beside an axis; the middle goes, because endings tell names apart."""
    if len(name) <= longest:
        return name
    head = (longest - 1) // 2
    return f"{name[:head]}…{name[-(longest - 1 - head) :]}"


def training_curves(curves: Sequence[Curve], lines: Mapping[str, float], colours: Mapping[str, str]) -> Figure:
    """Validation Dice over rounds (FedSM, Fig. 2): best so far in full, as measured faint, references dashed."""
    height = max(4.3, AROUND_AXES + LABEL_INCHES * (len(curves) + len(lines)))
    with figure(9.5, height) as (made, (axes,)):
        solid = {curve.method: curve.role for curve in curves}  # the last role of a method is the one it is known for
        ends: list[tuple[float, str, str]] = []
        for curve in curves:
            style = "-" if curve.role == solid[curve.method] else (0, (1.2, 1.6))
            colour = colours[curve.method]
            axes.plot(curve.rounds, curve.mean, color=colour, linewidth=0.9, alpha=0.3)
            axes.plot(curve.rounds, curve.best, color=colour, linewidth=2, linestyle=style)
            ends.append((curve.best[-1], curve.label, colour))
        for label, value in lines.items():
            colour = colours.get(label, MUTED)
            axes.axhline(value, color=colour, linewidth=1.6, linestyle=(0, (5, 3)))
            ends.append((value, label, colour))
        values = [value for curve in curves for value in curve.best if not math.isnan(value)]
        _frame_scores(axes, [*values, *lines.values()], [value for value, _, _ in ends])
        last = max((curve.rounds[-1] for curve in curves), default=1)
        axes.set_xlim(0, max(last, 1))
        _count_rounds(axes)
        axes.set_ylabel("validation Dice, client average")
        _label_ends(axes, ends, height - AROUND_AXES)
        return made


def selector_curve(
    rounds: Sequence[int], by_site: Mapping[str, Sequence[float]], mean: Sequence[float], colour: str
) -> Figure:
    """Balanced accuracy of the selector per round (the mean of the sites' recalls) over the single sites' recalls."""
    with figure(4.6, 3.0) as (made, (axes,)):
        for scores in by_site.values():
            axes.plot(rounds, scores, color=MUTED, linewidth=0.8, alpha=0.45)
        axes.plot(rounds, mean, color=colour, linewidth=2.2)
        if by_site:
            axes.axhline(1 / len(by_site), color=MUTED, linewidth=1, linestyle=(0, (2, 3)))
            axes.text(
                rounds[-1], 1 / len(by_site) + 0.015, "chance", color=MUTED, ha="right", va="bottom", fontsize=8.5
            )
        axes.set_ylim(-0.02, 1.03)
        axes.set_xlim(rounds[0], max(rounds[-1], rounds[0] + 1))
        _count_rounds(axes)
        axes.set_ylabel("accuracy on validation images")
        return made


def gamma_curve(points: Sequence[Mapping[str, float]], chosen: float, colour: str) -> Figure:
    """Validation Dice over the gate's threshold, the threshold in use, and how often the global model is taken.

    The tried thresholds stand at equal distances: they crowd near 1, where a trained selector's confidence lies.
    """
    gammas = sorted({point["gamma"] for point in points} | {chosen})
    at = {gamma: place for place, gamma in enumerate(gammas)}
    places = [at[point["gamma"]] for point in points]
    dice = [point["dice"] for point in points]
    with figure(4.6, 3.0) as (made, (axes,)):
        axes.axvline(at[chosen], color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.plot(places, dice, color=colour, linewidth=2.2, marker="o", markersize=4)
        _pad(axes, dice)
        side = "right" if at[chosen] > len(gammas) / 2 else "left"
        axes.annotate(
            f"γ = {chosen:g}",
            (at[chosen], 1),
            xycoords=("data", "axes fraction"),
            color=INK,
            ha=side,
            va="top",
            xytext=(-5 if side == "right" else 5, -2),
            textcoords="offset points",
            fontweight="bold",
        )
        axes.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas], rotation=45 if len(gammas) > 8 else 0)
        axes.grid(axis="x", visible=False)
        axes.set_xlabel("threshold γ")
        axes.set_ylabel("validation Dice", color=colour)
        if all("global_share" in point for point in points):
            other = axes.twinx()
            other.bar(places, [point["global_share"] for point in points], color=MUTED, alpha=0.22, width=0.7)
            other.set_ylim(0, 1.02)
            other.grid(False)
            other.set_ylabel("share left to the global model")
            other.set_zorder(axes.get_zorder() - 1)
        return made


def site_dots(
    scores: Mapping[str, Mapping[str, float]],
    rows: Sequence[str],
    colours: Mapping[str, str],
    references: Collection[str],
) -> Figure:
    """Test Dice of every method (dots; diamonds for references) at every row (sites, then averages)."""
    names = {method: short(method, 28) for method in scores}
    longest = max((len(name) for name in names.values()), default=1)
    columns = min(len(scores), 5, int(9.5 / (0.45 + 0.082 * longest)))  # a mark and its gaps, then the letters
    legend = LABEL_INCHES * math.ceil(len(scores) / max(columns, 1))
    with figure(9.5, 0.7 + legend + 0.33 * len(rows)) as (made, (axes,)):
        for y, row in enumerate(rows):
            values = [by_row[row] for by_row in scores.values() if row in by_row]
            if values:
                axes.plot([min(values), max(values)], [y, y], color=GRID, linewidth=5, solid_capstyle="round", zorder=1)
        for order, (method, by_row) in enumerate(scores.items()):
            at = [(by_row[row], y) for y, row in enumerate(rows) if row in by_row]
            marker = "D" if method in references else "o"
            axes.scatter(
                [x for x, _ in at],
                [y for _, y in at],
                s=44 if marker == "o" else 30,
                color=colours[method],
                marker=marker,
                label=names[method],
                zorder=3 + order / 100,
                linewidths=0,
            )
        axes.set_yticks(range(len(rows)), [short(row) for row in rows])
        axes.tick_params(axis="y", labelcolor=INK, length=0)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("Dice")
        made.legend(loc="outside upper left", ncols=columns, handletextpad=0.2, columnspacing=1.4)
        return made


def feature_map(points: Mapping[str, Sequence[tuple[float, float]]], colours: Mapping[str, str]) -> Figure:
    """A t-SNE map of the selector's features, one colour per site (FedSM, Fig. 3)."""
    with figure(4.6, 3.4) as (made, (axes,)):
        for site, pairs in points.items():
            axes.scatter(
                [x for x, _ in pairs],
                [y for _, y in pairs],
                s=16,
                color=colours[site],
                alpha=0.75,
                linewidths=0,
                label=short(site),
            )
        axes.margins(0.06)
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_visible(False)
        made.legend(loc="outside right center", handletextpad=0.2)
        return made


def _frame_scores(axes: Axes, values: Sequence[float], ends: Sequence[float]) -> None:
    """A range that shows where every line ends rather than the first, steep rounds."""
    top, low = max(values), min(values)
    floor = min(max(low, top - 0.35), *ends)
    axes.set_ylim(floor - 0.02, min(1.0, top + 0.03))


def _count_rounds(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("rounds completed")


def _pad(axes: Axes, values: Sequence[float]) -> None:
    low, high = min(values), max(values)
    margin = max((high - low) * 0.15, 0.005)
    axes.set_ylim(low - margin, high + margin)


def _label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], inches: float) -> None:
    """Name each line at its right end, pushed apart where ends are close; `inches` is the height of the axes."""
    low, high = axes.get_ylim()
    ordered = sorted(ends)
    places = spread([value for value, _, _ in ordered], (high - low) * LABEL_INCHES / inches, low, high)
    for (_, label, colour), y in zip(ordered, places, strict=True):
        axes.annotate(
            short(label, 26),
            (1, y),
            xycoords=("axes fraction", "data"),
            xytext=(7, 0),
            textcoords="offset points",
            color=colour,
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
