"""The results table: methods by sites, the averages, each region, the spread over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedsuper.report.chapters import Chapter
from fedsuper.report.reading import Entry

AVERAGES = {"client_avg": "Client avg", "global": "Global"}


@dataclass(frozen=True)
class Cell:
    """One number of the table, with what stands under it and in its tooltip."""

    text: str
    spread: str = ""
    tip: str = ""
    best: bool = False
    average: bool = False


@dataclass(frozen=True)
class RegionRow:
    """The same row for one region alone."""

    name: str
    cells: list[Cell]


@dataclass(frozen=True)
class Row:
    """A method."""

    label: str
    colour: str
    reference: bool
    cells: list[Cell]
    regions: list[RegionRow]


@dataclass(frozen=True)
class Column:
    """A site or an average, with the number of its test images."""

    key: str
    name: str
    note: str = ""
    average: bool = False


@dataclass(frozen=True)
class Table:
    """All of it; `groups` are the federated methods and the references."""

    columns: list[Column]
    groups: list[list[Row]]
    note: str
    has_regions: bool = field(default=False)


def dice(value: float | None) -> str:
    """A score as the report prints it."""
    return "–" if value is None or math.isnan(value) else f"{value:.3f}"


def value_of(scores: Mapping[str, Any], column: str, region: str = "mean") -> float | None:
    """A score by column: an average's key or a site's name."""
    if column in AVERAGES:
        return scores.get(column) if region == "mean" else _region_average(scores, column, region)
    return scores.get("per_site", {}).get(column, {}).get(region)


def results_table(chapter: Chapter, colours: Mapping[str, str]) -> Table | None:
    """The table of a chapter; None without scores."""
    entries = chapter.scored
    if not entries:
        return None
    columns = _columns(chapter, entries)
    federated = [entry for entry in entries if not entry.reference]
    fair = [entry for entry in federated if entry in chapter.comparable]
    best = {c.key: _best(fair if c.average else federated, c.key) for c in columns} if len(federated) > 1 else {}
    groups = []
    for group in (federated, [entry for entry in entries if entry.reference]):
        rows = [_row(entry, columns, best, chapter, colours[entry.label]) for entry in group]
        groups += [rows] if rows else []
    return Table(columns, groups, _note(chapter, bool(best)), len(chapter.regions) > 1)


def _columns(chapter: Chapter, entries: Sequence[Entry]) -> list[Column]:
    images: dict[str, float] = {}
    for entry in entries:
        images |= entry.scores.get("images", {})
    sites = [Column(site, site, f"n = {images[site]:.0f}" if site in images else "") for site in chapter.sites]
    total = max((int(entry.scores.get("n") or 0) for entry in entries), default=0)
    return [
        *sites,
        Column("client_avg", AVERAGES["client_avg"], f"{len(chapter.sites)} sites", True),
        Column("global", AVERAGES["global"], f"n = {total}" if total else "", True),
    ]


def _row(entry: Entry, columns: Sequence[Column], best: Mapping[str, float], chapter: Chapter, colour: str) -> Row:
    regions = chapter.regions
    fair = entry in chapter.comparable
    cells = [
        _cell(entry, column, best, regions) if fair or not column.average else _partial(entry, column)
        for column in columns
    ]
    detail = [
        RegionRow(region, [Cell(dice(value_of(entry.scores, c.key, region)), average=c.average) for c in columns])
        for region in regions
        if len(regions) > 1
    ]
    return Row(entry.label, colour, entry.reference, cells, detail)


def _cell(entry: Entry, column: Column, best: Mapping[str, float], regions: Sequence[str]) -> Cell:
    value = value_of(entry.scores, column.key)
    wins = not entry.reference and value is not None and dice(value) == dice(best.get(column.key))
    spread, tip = _spread(entry.scores, column.key), _tip(entry.scores, column, regions)
    return Cell(dice(value), spread, tip, wins, column.average)


def _partial(entry: Entry, column: Column) -> Cell:
    """An average over fewer sites than the others' must not stand beside them."""
    tip = f"{dice(value_of(entry.scores, column.key))} over {len(entry.scores['per_site'])} sites only"
    return Cell(dice(None), tip=tip, average=True)


def _best(entries: Iterable[Entry], column: str) -> float:
    return max((value for entry in entries if (value := value_of(entry.scores, column)) is not None), default=math.nan)


def _spread(scores: Mapping[str, Any], column: str) -> str:
    """The standard deviation over seeds, as `std` in metrics.json gives it for the averages."""
    values = [value_of(one, column) for one in scores.get("per_seed", {}).values()]
    known = [value for value in values if value is not None]
    return dice(statistics.stdev(known)) if len(known) > 1 else ""


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
        "Client avg: mean over sites; Global: over all images."
    )
    if len(seeds) > 1:
        text += f" Means over {len(seeds)} seeds, ± one standard deviation."
    return text + (" Best federated method in bold." if marked else "")
