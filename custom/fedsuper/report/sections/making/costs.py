"""What training cost: megabytes each way and seconds, round by round."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from fedsuper.evaluation.run_files.names import RUNS, cell
from fedsuper.evaluation.run_files.tables import SiteCost, read_rounds
from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.labels import LABEL_INCHES, count_rounds, label_ends
from fedsuper.report.figures.picture import Picture
from fedsuper.report.figures.style import figure
from fedsuper.report.markup import Cell, Row, chart, details, join, note, table
from fedsuper.report.runs import POOLED, Entry
from fedsuper.report.sections.base import Look, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEGABYTE = 1_000_000
NOTE = (
    "Megabytes between the server and a site in a round (mean over sites and rounds), seconds of a round, and all that "
    "travelled, hand-over included. First seed. Pooled training sends nothing: its images would have to travel instead."
)
HEAD: list[Cell | str] = ["Method", "MB down", "MB up", "Seconds a round", "MB in all", "Minutes in all"]
Rounds = Mapping[int, Mapping[str, SiteCost]]


def build(chapter: Chapter, look: Look) -> list[Section]:
    """From the `rounds.csv` of every run; none where none was written."""
    found = {entry.label: (entry, rounds) for entry in chapter.entries if (rounds := rounds_of(entry))}
    if not found:
        return []
    rows = [_row(entry, rounds, look.colors[label]) for label, (entry, rounds) in found.items()]
    seconds = {label: seconds_by_round(rounds) for label, (_, rounds) in found.items()}
    alt = "Seconds of every round"
    picture = Picture(f"{look.prefix}costs", partial(time_by_round, seconds, look.colors), alt)
    parts = [note(NOTE), table(HEAD, [rows], "costs"), details("Seconds round by round", chart(picture))]
    return [Section("costs", "Traffic and time", "What training cost", join(parts), (picture,))]


def rounds_of(entry: Entry) -> Rounds:
    """The costs of an entry's first seed."""
    several = (entry.run / RUNS).is_dir()
    seed = next(iter(entry.manifests), None)
    if several and seed is None:
        return {}
    return read_rounds(cell(entry.run, entry.method, seed or 0) if several else entry.run)


def seconds_by_round(rounds: Rounds) -> dict[int, float]:
    """A round takes as long as its slowest site: every site's line says the same."""
    return {number: max(cost.seconds for cost in sites.values()) for number, sites in rounds.items() if sites}


def _row(entry: Entry, rounds: Rounds, color: str) -> Row:
    every = [cost for sites in rounds.values() for cost in sites.values()]
    seconds = list(seconds_by_round(rounds).values())
    total = sum(both["down"] + both["up"] for both in entry.manifest.get("traffic", {}).values()) / MEGABYTE
    pooled = entry.method.partition("+")[0] == POOLED
    down, up = (fmean(getattr(cost, way) for cost in every) / MEGABYTE for way in ("bytes_down", "bytes_up"))
    moved = ["–", "–"] if pooled else [f"{down:.2f}", f"{up:.2f}"]
    in_all = "–" if pooled or not total else f"{total:.1f}"
    return Row(entry.label, [*moved, f"{fmean(seconds):.2f}", in_all, f"{sum(seconds) / 60:.1f}"], color)


def time_by_round(seconds: Mapping[str, Mapping[int, float]], colors: Mapping[str, str]) -> Figure:
    """A line a method."""
    height = max(3.2, 0.6 + LABEL_INCHES * len(seconds))
    with figure(9.5, height) as (made, (axes,)):
        ends = []
        for label, by_round in seconds.items():
            values = list(by_round.values())
            axes.plot(list(by_round), values, color=colors[label], linewidth=1.4)
            ends.append((values[-1], label, colors[label]))
        axes.set_ylim(bottom=0)
        count_rounds(axes)
        axes.set_ylabel("seconds")
        label_ends(axes, ends, height - 0.6)
        return made
