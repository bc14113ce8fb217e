"""Rows that differ in the value of one knob (`iop-fl+tau=0.1`, `iop-fl+tau=0.9 (route)`), gathered into lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from fedsuper.report.chapters import NAMES
from fedsuper.report.figures.labels import LABEL_INCHES, label_ends
from fedsuper.report.figures.style import METHOD_COLORS, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AROUND_AXES = 0.6  # inches
Score = TypeVar("Score")


@dataclass(frozen=True)
class Level:
    """A score and, where it is known, its 95% interval."""

    score: float
    low: float | None = None
    high: float | None = None


def parse_row(row: str) -> tuple[str, dict[str, str], str]:
    """A row's method, what it changes, and its mode in parentheses (empty where it has none)."""
    body = re.sub(r" \(.*\)$", "", row)
    method, *changes = body.split("+")
    return method, dict(change.split("=", 1) for change in changes if "=" in change), row[len(body) :]


def lines_by_knob(rows: Mapping[str, Score]) -> dict[str, dict[str, list[tuple[float, Score]]]]:
    """Knob -> line -> (value, score) by rising value; a line needs two values that are numbers."""
    found: dict[str, dict[str, list[tuple[float, Score]]]] = {}
    for row, score in rows.items():
        method, changes, mode = parse_row(row)
        for knob, text in changes.items():
            try:
                value = float(text)
            except ValueError:
                continue
            rest = "".join(f", {name}={other}" for name, other in changes.items() if name != knob)
            line = f"{NAMES.get(method, method)}{rest}{mode}"
            found.setdefault(knob, {}).setdefault(line, []).append((value, score))
    lines = {
        knob: {line: sorted(points, key=lambda point: point[0]) for line, points in by_line.items() if len(points) > 1}
        for knob, by_line in found.items()
    }
    return {knob: by_line for knob, by_line in lines.items() if by_line}


def knob_figure(knob: str, lines: Mapping[str, list[tuple[float, Level]]], score: str) -> Figure:
    """A line each, intervals shaded; the values tried stand at their place."""
    height = max(3.4, AROUND_AXES + LABEL_INCHES * len(lines))
    with figure(9.5, height) as (made, (axes,)):
        ends = []
        for place, (label, points) in enumerate(lines.items()):
            color = METHOD_COLORS[place % len(METHOD_COLORS)]
            values, levels = [value for value, _ in points], [level for _, level in points]
            axes.plot(values, [level.score for level in levels], color=color, marker="o", markersize=4)
            bounds = [(level.low, level.high) for level in levels if level.low is not None and level.high is not None]
            if len(bounds) == len(values):
                low, high = zip(*bounds, strict=True)
                axes.fill_between(values, low, high, color=color, alpha=0.12, linewidth=0)
            ends.append((levels[-1].score, label, color))
        axes.set_xticks(sorted({value for points in lines.values() for value, _ in points}))
        axes.set_xlabel(knob)
        axes.set_ylabel(score)
        label_ends(axes, ends, height - AROUND_AXES)
        return made
