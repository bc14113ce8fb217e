"""How methods were tuned: the grid of a sweep, what validation data chose, and what each method was given.

The curves of all cells, one panel a method, are IOP-FL's Fig. 5 where the grid is over local epochs, the score by value
its Fig. 6 where it is over tau.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fedsuper.evaluation.run_files.records import read_all_manifests, read_sweep
from fedsuper.report.chapters import NAMES, Chapter
from fedsuper.report.figures.labels import count_rounds
from fedsuper.report.figures.picture import Picture
from fedsuper.report.figures.style import METHOD_COLORS, figure
from fedsuper.report.histories import PERSONAL, SELECTOR, Curve, roles_of, validation_curve
from fedsuper.report.knobs import Level, knob_figure, lines_by_knob, parse_row
from fedsuper.report.markup import Cell, Row, chart, join, note, table
from fedsuper.report.numbers import dice, mean, whole
from fedsuper.report.runs import Run
from fedsuper.report.sections.base import Look, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTE = "Every cell was trained; validation data chose one per method (bold). Test scores were made for these alone."
CURVES = "Validation Dice of every cell by round, mean over sites and seeds; of several models the personalized one."
BY_VALUE = "Validation Dice by {}, mean over seeds."
COLUMNS = 3


def build(chapter: Chapter, look: Look) -> list[Section]:
    """None where no run was a sweep."""
    sections = []
    for number, run in enumerate(chapter.runs):
        found = read_sweep(run.folder)
        if found:
            pictures = (*_by_value(found, look.prefix), *_curves(run, found, look.prefix))
            body = join([*_tables(found), *map(chart, pictures)])
            sections.append(Section(f"tuning{number or ''}", "Tuning", "How methods were tuned", body, pictures))
    return sections


def _tables(found: Mapping[str, Any]) -> list[Any]:
    budget = found["budget"]
    spent = [Row(method, [whole(b["cells"]), whole(b["rounds"])]) for method, b in budget.items()]
    alike = len({b["cells"] for b in budget.values()}) == 1
    text = NOTE if alike else f"{NOTE} The methods were not given equally many cells."
    chosen = set(found["chosen"].values())
    rows = [
        Row(row, [Cell(dice(score), kind="best" if row in chosen else "")]) for row, score in validation(found).items()
    ]
    return [
        note(text),
        table(["Cell", "Validation Dice"], [rows], "tuning-cells"),
        table(["Method", "Cells", "Rounds trained"], [spent], "tuning-budget"),
    ]


def validation(found: Mapping[str, Any]) -> dict[str, float]:
    """Cell -> validation Dice, mean over seeds."""
    return {row: mean(list(cell["validation"].values())) for row, cell in found["cells"].items()}


def _by_value(found: Mapping[str, Any], prefix: str) -> list[Picture]:
    levels = {row: Level(score) for row, score in validation(found).items()}
    pictures = []
    for knob, lines in lines_by_knob(levels).items():
        words = BY_VALUE.format(knob)
        draw = partial(knob_figure, knob, lines, "validation Dice")
        pictures.append(Picture(f"{prefix}tuning-{knob.replace('.', '-')}", draw, words, words))
    return pictures


def _curves(run: Run, found: Mapping[str, Any], prefix: str) -> list[Picture]:
    manifests = read_all_manifests(run.folder)
    panels: dict[str, list[Curve]] = {}
    for row in found["cells"]:
        histories = [manifest["history"] for manifest in manifests.get(row, {}).values() if manifest.get("history")]
        roles = [role for role in roles_of(histories[0]) if role != SELECTOR] if histories else []
        method, changes, _ = parse_row(row)
        if roles:
            role = PERSONAL if PERSONAL in roles else roles[0]
            label = ", ".join(f"{key}={value}" for key, value in changes.items()) or "as it is"
            curve = validation_curve(histories, method, role, label, role == PERSONAL)
            panels.setdefault(method, []).extend([curve] if curve else [])
    if not panels:
        return []
    return [Picture(f"{prefix}tuning-curves", partial(panels_of_curves, panels), CURVES, CURVES)]


def panels_of_curves(panels: Mapping[str, Sequence[Curve]]) -> Figure:
    """A panel a method, a line a cell."""
    columns = min(len(panels), COLUMNS)
    rows = -(-len(panels) // columns)
    with figure(9.5, 3.4 * rows, rows, columns) as (made, grid):
        for axes in grid[len(panels) :]:
            axes.axis("off")
        for axes, (method, curves) in zip(grid, panels.items(), strict=False):
            for place, curve in enumerate(curves):
                color = METHOD_COLORS[place % len(METHOD_COLORS)]
                axes.plot(curve.rounds, curve.mean, color=color, linewidth=1.6, label=curve.label)
            axes.set_title(NAMES.get(method, method))
            axes.legend(fontsize=7.5, loc="lower right", handlelength=1.2)
            count_rounds(axes)
        grid[0].set_ylabel("validation Dice")
        return made
