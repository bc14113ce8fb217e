"""The selector's figures: how it learned, how far it can be believed, when it is trusted, what it sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedsuper.report.figures.labels import count_rounds, short
from fedsuper.report.figures.style import INK, METHOD_COLORS, MUTED, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def calibration_curve(bins: Sequence[Mapping[str, float]], color: str) -> Figure:
    """Share recognized over confidence, in steps; on the diagonal a probability means what it says."""
    most = max(one["n"] for one in bins)
    with figure(4.6, 3.0) as (made, (axes,)):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        x, y = [one["confidence"] for one in bins], [one["accuracy"] for one in bins]
        axes.plot(x, y, color=color, linewidth=1.4)
        axes.scatter(x, y, s=[12 + 90 * one["n"] / most for one in bins], color=color, linewidths=0, zorder=3)
        axes.set_xlim(-0.02, 1.03)
        axes.set_ylim(-0.02, 1.03)
        axes.set_xlabel("confidence")
        axes.set_ylabel("share recognized")
        return made


def selector_curve(
    rounds: Sequence[int], by_site: Mapping[str, Sequence[float]], mean: Sequence[float], color: str
) -> Figure:
    """Balanced accuracy of the selector per round (the mean of the sites' recalls) over the single sites' recalls."""
    with figure(4.6, 3.0) as (made, (axes,)):
        for scores in by_site.values():
            axes.plot(rounds, scores, color=MUTED, linewidth=0.8, alpha=0.45)
        axes.plot(rounds, mean, color=color, linewidth=2.2)
        if by_site:
            chance = 1 / len(by_site)
            axes.axhline(chance, color=MUTED, linewidth=1, linestyle=(0, (2, 3)))
            axes.text(rounds[-1], chance + 0.015, "chance", color=MUTED, ha="right", va="bottom", fontsize=8.5)
        axes.set_ylim(-0.02, 1.03)
        axes.set_xlim(rounds[0], max(rounds[-1], rounds[0] + 1))
        count_rounds(axes)
        axes.set_ylabel("accuracy on validation images")
        return made


def gamma_curve(points: Sequence[Mapping[str, float]], chosen: float, color: str) -> Figure:
    """Validation Dice over the gate's threshold, the threshold in use, and how often the global model is taken.

    The tried thresholds stand at equal distances: they crowd near 1, where a trained selector's confidence lies.
    """
    gammas = sorted({point["gamma"] for point in points} | {chosen})
    at = {gamma: place for place, gamma in enumerate(gammas)}
    places = [at[point["gamma"]] for point in points]
    values = [point["dice"] for point in points]
    with figure(4.6, 3.0) as (made, (axes,)):
        axes.axvline(at[chosen], color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.plot(places, values, color=color, linewidth=2.2, marker="o", markersize=4)
        margin = max((max(values) - min(values)) * 0.15, 0.005)
        axes.set_ylim(min(values) - margin, max(values) + margin)
        side, shift = ("right", -5) if at[chosen] > len(gammas) / 2 else ("left", 5)
        axes.annotate(
            f"γ = {chosen:g}",
            (at[chosen], 1),
            xycoords=("data", "axes fraction"),
            color=INK,
            ha=side,
            va="top",
            xytext=(shift, -2),
            textcoords="offset points",
            fontweight="bold",
        )
        axes.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas], rotation=45 if len(gammas) > 8 else 0)
        axes.grid(axis="x", visible=False)
        axes.set_xlabel("threshold γ")
        axes.set_ylabel("validation Dice", color=color)
        if all("global_share" in point for point in points):
            other = axes.twinx()
            other.bar(places, [point["global_share"] for point in points], color=MUTED, alpha=0.22, width=0.7)
            other.set_ylim(0, 1.02)
            other.grid(False)
            other.set_ylabel("share left to the global model")
            other.set_zorder(axes.get_zorder() - 1)
        return made


def feature_map(points: Mapping[str, Sequence[tuple[float, float]]]) -> Figure:
    """The selector's features in two dimensions, one color per site (FedSM, Fig. 3)."""
    with figure(4.6, 3.4) as (made, (axes,)):
        for number, (site, pairs) in enumerate(points.items()):
            color = METHOD_COLORS[number % len(METHOD_COLORS)]
            x, y = zip(*pairs, strict=True)
            axes.scatter(x, y, s=16, color=color, alpha=0.75, linewidths=0, label=short(site))
        axes.margins(0.06)
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_visible(False)
        made.legend(loc="outside right center", handletextpad=0.2)
        return made
