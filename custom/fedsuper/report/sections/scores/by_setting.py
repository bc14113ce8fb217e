"""Rows that differ in one knob, drawn over its values (FedSM, Table 7; IOP-FL, Fig. 6)."""

from __future__ import annotations

from functools import partial

from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.picture import Picture
from fedsuper.report.knobs import Level, knob_figure, lines_by_knob
from fedsuper.report.markup import chart, join
from fedsuper.report.runs import Entry
from fedsuper.report.sections.base import Look, Section

CAPTION = "Dice of {}, client average, by {}; shade: its 95% interval over patients."


def build(chapter: Chapter, look: Look) -> list[Section]:
    """A figure for each knob that rows try several numbers of."""
    entries = [entry for entry in chapter.comparable if not entry.bound and "(site:" not in entry.method]
    pictures = []
    for knob, lines in lines_by_knob({entry.method: _level(entry) for entry in entries}).items():
        words = CAPTION.format(chapter.images, knob)
        draw = partial(knob_figure, knob, lines, "Dice")
        pictures.append(Picture(f"{look.prefix}by-{knob.replace('.', '-')}", draw, words, words, knob))
    if not pictures:
        return []
    body = join(chart(picture) for picture in pictures)
    return [Section("by-setting", "By setting", "What a setting changes", body, tuple(pictures))]


def _level(entry: Entry) -> Level:
    interval = entry.scores.get("ci95", {}).get("client_avg") or (None, None)
    return Level(float(entry.scores["client_avg"]), *interval)
