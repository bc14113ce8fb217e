"""What a hospital outside gains from each further site inside (IOP-FL, Fig. 7a)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from markupsafe import Markup

from fedsuper.evaluation.run_files.records import read_inside
from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.labels import LABEL_INCHES, label_ends
from fedsuper.report.figures.picture import Picture
from fedsuper.report.figures.style import METHOD_COLORS, figure
from fedsuper.report.markup import Row, chart, details, join, table
from fedsuper.report.numbers import dice
from fedsuper.report.sections.base import Look, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAPTION = "Dice at {}, which took no part, by the number of sites that trained; they join in the order of their names."


def build(chapter: Chapter, look: Look) -> list[Section]:
    """A figure for each site left out (`fedsuper compare --leave-out SITE --with inside-sites`)."""
    pictures: list[Picture] = []
    parts: list[Markup] = []
    for number, run in enumerate(chapter.runs):
        for left, rows in read_inside(run.folder).items():
            words = CAPTION.format(left)
            name = f"{look.prefix}inside{number or ''}-{len(pictures)}"
            picture = Picture(name, partial(by_count, rows), words, words)
            counts = sorted({count for row in rows.values() for count in row}, key=int)
            lines = [Row(row, [dice(found.get(count)) for count in counts]) for row, found in rows.items()]
            numbers = table(["Row", *(f"{count} inside" for count in counts)], [lines], f"inside-{left}")
            pictures.append(picture)
            parts += [chart(picture), details(f"Numbers for {left}", numbers)]
    if not pictures:
        return []
    title = "How many sites does a hospital outside need?"
    return [Section("inside-count", "Sites inside", title, join(parts), tuple(pictures))]


def by_count(rows: Mapping[str, Mapping[str, float]]) -> Figure:
    """A line a row."""
    height = max(3.4, 0.6 + LABEL_INCHES * len(rows))
    with figure(9.5, height) as (made, (axes,)):
        ends = []
        for place, (row, found) in enumerate(rows.items()):
            color = METHOD_COLORS[place % len(METHOD_COLORS)]
            counts = sorted(map(int, found))
            values = [found[str(count)] for count in counts]
            axes.plot(counts, values, color=color, marker="o", markersize=4)
            ends.append((values[-1], row, color))
        axes.set_xticks(sorted({int(count) for found in rows.values() for count in found}))
        axes.set_xlabel("sites inside")
        axes.set_ylabel("Dice at the site outside")
        label_ends(axes, ends, height - 0.6)
        return made
