"""Training: every method's validation curve (FedSM, Fig. 2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.labels import LABEL_INCHES, count_rounds, label_ends
from fedsuper.report.figures.picture import Picture
from fedsuper.report.figures.style import MUTED, figure
from fedsuper.report.histories import PERSONAL, SELECTOR, Curve, roles_of, validation_curve
from fedsuper.report.markup import chart, details, join, note
from fedsuper.report.numbers import dice
from fedsuper.report.runs import POOLED, Entry
from fedsuper.report.sections.base import Look, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CURVES = 12  # beyond that, methods are shown by one curve each
AROUND_AXES = 0.6  # inches that ticks and a title take from a figure's height
NOTE = (
    "Validation Dice averaged over the sites, after every round. Bold: best so far, which is what gets handed over. "
    "Faint: as measured."
)


def build(chapter: Chapter, look: Look) -> list[Section]:
    """Every method's curve; pooled training is a horizontal line. Regions, where there are several, to unfold."""
    whole = _picture(chapter, look, None)
    if whole is None:
        return []
    drawn = (_picture(chapter, look, region) for region in chapter.regions)
    regions = [picture for picture in drawn if picture is not None]
    parts = [note(NOTE), chart(whole)]
    parts += [details("Each region", join(map(chart, regions)))] if regions else []
    return [Section("training", "Training", "Training", join(parts), (whole, *regions))]


def _picture(chapter: Chapter, look: Look, region: str | None) -> Picture | None:
    curves: list[Curve] = []
    lines: dict[str, float] = {}
    for entry in chapter.entries:
        found = entry_curves(entry, region)
        if entry.method == POOLED and found:
            lines[entry.label] = max(curve.best[-1] for curve in found)
        else:
            curves += found
    if not curves:
        return None
    caption = "Dashed: best of pooled training, over all validation images together." if lines else ""
    if len(curves) > MOST_CURVES:
        own = {curve.method: curve for curve in curves}
        if len(own) < len(curves):
            caption += " Of several models of a method only the personalized ones are shown."
        curves = [replace(curve, label=curve.method) for curve in own.values()]
    ends = [f"{curve.label} {dice(curve.best[-1])}" for curve in curves]
    ends += [f"{label} {dice(value)}" for label, value in lines.items()]
    alt = f"Validation Dice{f' of {region}' if region else ''} by round, best at the end: {', '.join(ends)}"
    name = f"{look.prefix}training" + (f"-{region}" if region else "")
    return Picture(name, partial(training_curves, curves, lines, look.colors), alt, caption, region or "")


def entry_curves(entry: Entry, region: str | None = None) -> list[Curve]:
    """One curve per segmentation role; the role a method is known for (personal before global) comes last."""
    roles = [role for role in roles_of(entry.histories[0]) if role != SELECTOR] if entry.histories else []
    roles.sort(key=lambda role: role == PERSONAL)
    found = []
    for role in roles:
        label = entry.label if len(roles) == 1 else f"{entry.label}, {role}"
        found.append(validation_curve(entry.histories, entry.label, role, label, role == PERSONAL, region))
    return [curve for curve in found if curve is not None]


def training_curves(curves: Sequence[Curve], lines: Mapping[str, float], colors: Mapping[str, str]) -> Figure:
    """Best so far in full, as measured faint, references dashed."""
    height = max(4.3, AROUND_AXES + LABEL_INCHES * (len(curves) + len(lines)))
    with figure(9.5, height) as (made, (axes,)):
        solid = {curve.method: curve.role for curve in curves}  # the last role of a method is the one it is known for
        ends: list[tuple[float, str, str]] = []
        for curve in curves:
            style = "-" if curve.role == solid[curve.method] else (0, (1.2, 1.6))
            color = colors[curve.method]
            axes.plot(curve.rounds, curve.mean, color=color, linewidth=0.9, alpha=0.3)
            axes.plot(curve.rounds, curve.best, color=color, linewidth=2, linestyle=style)
            ends.append((curve.best[-1], curve.label, color))
        for label, value in lines.items():
            color = colors.get(label, MUTED)
            axes.axhline(value, color=color, linewidth=1.6, linestyle=(0, (5, 3)))
            ends.append((value, label, color))
        values = [value for curve in curves for value in curve.best if not math.isnan(value)]
        _frame_scores(axes, [*values, *lines.values()], [value for value, _, _ in ends])
        last = max((curve.rounds[-1] for curve in curves), default=1)
        axes.set_xlim(0, max(last, 1))
        count_rounds(axes)
        axes.set_ylabel("validation Dice, client average")
        label_ends(axes, ends, height - AROUND_AXES)
        return made


def _frame_scores(axes: Axes, values: Sequence[float], ends: Sequence[float]) -> None:
    """A range that shows where every line ends rather than the first, steep rounds."""
    top, low = max(values), min(values)
    floor = min(max(low, top - 0.35), *ends)
    axes.set_ylim(floor - 0.02, min(1.0, top + 0.03))
