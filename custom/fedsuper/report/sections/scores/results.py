"""The results table: methods by sites, the averages, each region, the spread over seeds; the same as dots."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.labels import LABEL_INCHES, short
from fedsuper.report.figures.picture import Picture
from fedsuper.report.figures.style import GRID, INK, figure
from fedsuper.report.finding import equal_rows
from fedsuper.report.markup import Cell, Row, chart, join, note, table
from fedsuper.report.numbers import dice
from fedsuper.report.runs import Entry
from fedsuper.report.sections.base import Look, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AVERAGES = {"client_avg": "Client avg", "global": "Global"}
WORST = "worst/site"  # a key that no folder can have
SWITCH = Markup('<label class="switch"><input type="checkbox" class="show-regions"> Show each region</label>')


@dataclass(frozen=True)
class Column:
    """A site or an average, with the number of its test images."""

    key: str
    name: str
    note: str = ""

    @property
    def average(self) -> bool:
        """Over several sites."""
        return self.key in (*AVERAGES, WORST)


def build(chapter: Chapter, look: Look) -> list[Section]:
    """The table of a chapter; none without scores."""
    entries = chapter.scored
    if not entries:
        return []
    columns = _columns(chapter, entries)
    federated = [entry for entry in entries if not entry.reference]
    ranked = [entry for entry in entries if not entry.bound]
    fair = [entry for entry in ranked if entry in chapter.comparable]
    best = {c.key: _best(fair if c.average else ranked, c.key) for c in columns} if len(ranked) > 1 else {}
    groups = [
        [row for entry in group for row in _rows(entry, columns, best, chapter, look.colors[entry.label])]
        for group in (federated, [entry for entry in entries if entry.reference])
        if group
    ]
    head: list[Cell | str] = ["Method", *(Cell(c.name, c.note, kind="average" if c.average else "") for c in columns)]
    parts = [note(_note(chapter, bool(best))), table(head, groups, "results")]
    if len(chapter.regions) > 1:
        parts.append(SWITCH)
    dots = _dots(chapter, look)
    parts += [chart(picture) for picture in dots]
    body = Markup('<div class="results">{}</div>').format(join(parts))
    return [Section("results", "Results", "Results", body, tuple(dots))]


def value_of(scores: Mapping[str, Any], column: str, region: str = "mean") -> float | None:
    """A score by column: an average's key or a site's name."""
    if column in AVERAGES:
        found = scores.get(column) if region == "mean" else _region_average(scores, column, region)
    elif column == WORST:
        known = [by_region[region] for by_region in scores.get("per_site", {}).values() if region in by_region]
        found = min(known, default=None)
    else:
        found = scores.get("per_site", {}).get(column, {}).get(region)
    return None if found is None else float(found)


def _columns(chapter: Chapter, entries: Sequence[Entry]) -> list[Column]:
    images: dict[str, float] = {}
    for entry in entries:
        images |= entry.scores.get("images", {})
    sites = [Column(site, site, f"n = {images[site]:.0f}" if site in images else "") for site in chapter.sites]
    total = max((int(entry.scores.get("n") or 0) for entry in entries), default=0)
    return [  # the averages first: a phone shows no more
        Column("client_avg", AVERAGES["client_avg"], f"{len(chapter.sites)} sites"),
        Column("global", AVERAGES["global"], f"n = {total}" if total else ""),
        Column(WORST, "Worst site", "lowest mean"),
        *sites,
    ]


def _rows(
    entry: Entry, columns: Sequence[Column], best: Mapping[str, float], chapter: Chapter, color: str
) -> list[Row]:
    """The method, then the same for each region alone."""
    fair = entry in chapter.comparable
    cells = [
        _cell(entry, column, best, chapter.regions) if fair or not column.average else _partial(entry, column)
        for column in columns
    ]
    rows = [Row(entry.label, cells, color, "reference" if entry.reference else "")]
    for region in chapter.regions if len(chapter.regions) > 1 else []:
        values = [
            Cell(dice(value_of(entry.scores, c.key, region)), kind="average" if c.average else "") for c in columns
        ]
        rows.append(Row(region, values, kind="region"))
    return rows


def _cell(entry: Entry, column: Column, best: Mapping[str, float], regions: Sequence[str]) -> Cell:
    value = value_of(entry.scores, column.key)
    wins = not entry.bound and value is not None and dice(value) == dice(best.get(column.key))
    kinds = [name for name, wanted in (("average", column.average), ("best", wins)) if wanted]
    return Cell(dice(value), _spread(entry.scores, column.key), _tip(entry.scores, column, regions), " ".join(kinds))


def _partial(entry: Entry, column: Column) -> Cell:
    """An average over fewer sites than the others' must not stand beside them."""
    tip = f"{dice(value_of(entry.scores, column.key))} over {len(entry.scores['per_site'])} sites only"
    return Cell(dice(None), tip=tip, kind="average")


def _best(entries: Iterable[Entry], column: str) -> float:
    return max((value for entry in entries if (value := value_of(entry.scores, column)) is not None), default=math.nan)


def _spread(scores: Mapping[str, Any], column: str) -> str:
    """The standard deviation over seeds, as `std` in metrics.json gives it for the averages."""
    values = [value_of(one, column) for one in scores.get("per_seed", {}).values()]
    known = [value for value in values if value is not None]
    return f"± {dice(statistics.stdev(known))}" if len(known) > 1 else ""


def _tip(scores: Mapping[str, Any], column: Column, regions: Sequence[str]) -> str:
    """Every region, and for averages the confidence interval."""
    parts = [f"{region} {dice(value_of(scores, column.key, region))}" for region in regions]
    interval = scores.get("ci95", {}).get(column.key)
    if interval:
        parts.append(f"95% interval {dice(interval[0])} to {dice(interval[1])}")
    return ", ".join(parts)


def _region_average(scores: Mapping[str, Any], column: str, region: str) -> float | None:
    """A region's mean over sites, plain or weighted by their numbers of images."""
    per_site, images = scores.get("per_site", {}), scores.get("images", {})
    pairs = [
        (by_region[region], images.get(site, 1) if column == "global" else 1)
        for site, by_region in per_site.items()
        if region in by_region
    ]
    total = sum(weight for _, weight in pairs)
    return math.fsum(value * weight for value, weight in pairs) / total if total else None


def _note(chapter: Chapter, marked: bool) -> str:
    seeds = {seed for entry in chapter.scored for seed in entry.scores.get("per_seed", {})}
    text = (
        f"Dice on {chapter.images}: averaged over a site's images, then over regions. "
        "Client avg: mean over sites; Global: over all images; Worst site: the lowest of the sites."
    )
    if len(seeds) > 1:
        text += f" Means over {len(seeds)} seeds, ± one standard deviation."
    text += " Bold: highest of all rows." if marked else ""
    if any(entry.bound for entry in chapter.scored):
        text += " Rows that need the labels to choose (oracle, average) are bounds and never bold."
    return " ".join([text, *equal_rows(chapter)])


def _dots(chapter: Chapter, look: Look) -> list[Picture]:
    """The table's numbers as dots, where there is something to compare."""
    if len(chapter.comparable) < 2:
        return []
    names = {row: AVERAGES.get(row, row) for row in (*chapter.sites, *AVERAGES)}
    scores = {
        entry.label: {name: value for row, name in names.items() if (value := value_of(entry.scores, row)) is not None}
        for entry in chapter.comparable
    }
    references = {entry.label for entry in chapter.comparable if entry.reference}
    alt = "Test Dice of every method at every site; the numbers are in the table above"
    rows = list(names.values())
    return [Picture(f"{look.prefix}sites", lambda: site_dots(scores, rows, look.colors, references), alt)]


def site_dots(
    scores: Mapping[str, Mapping[str, float]],
    rows: Sequence[str],
    colors: Mapping[str, str],
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
                color=colors[method],
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
