"""Test-time routing at the sites left out: variants, what it gains in time, what it has to mix.

IOP-FL, Table III (by layer or globally), Fig. 8 (without one term of the loss), Figs. 7b and 9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean, pstdev
from typing import Any

from markupsafe import Markup

from fedsuper.evaluation.run_files.records import read_routing
from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.picture import Picture
from fedsuper.report.figures.routing import loss_curves, time_curve, variation_bars
from fedsuper.report.figures.style import METHOD_COLORS
from fedsuper.report.markup import Row, chart, join, note, pair, table
from fedsuper.report.numbers import dice
from fedsuper.report.runs import Entry
from fedsuper.report.sections.base import Look, Section
from fedsuper.report.sections.scores.single_images import boxes, image_scores

NOTE = (
    "Each image of the site left out is tuned for itself, without labels. Below: the routing as it is, and with one "
    "setting changed at a time."
)
TIME = (
    "Dice of what would be kept against seconds an image, mean over the sites left out; shade: standard deviation over "
    "them (of one site: over its images). Dashed: ways of predicting that need no tuning."
)
VARIATION = (
    "Mean over layers of the distance between an inside site’s weights and the global model’s, by the site left out. "
    "Dot: an inside site; bar: their mean."
)
SPREAD = "Dice of every image of the sites left out, by variant. Box: the middle half; line: the median."
LOSS = "The loss that is tuned, mean and standard deviation over a site’s images, by epoch. 0: untuned."


def build(chapter: Chapter, look: Look) -> list[Section]:
    """One for each row whose routing was watched (`fedsuper compare --leave-out ... --with routing`)."""
    sections = []
    for number, run in enumerate(chapter.runs):
        for row, by_left in read_routing(run.folder).items():
            slug = "-".join(filter(None, ["routing", re.sub(r"[^a-z0-9]+", "-", row.lower()), str(number or "")]))
            variants = [entry for entry in run.entries if re.match(rf"{re.escape(row)} \(route[,)]", entry.method)]
            spread = _boxes(variants, chapter.sites, f"{look.prefix}{slug}-variants")
            watched = _pictures(by_left, f"{look.prefix}{slug}")
            body = join([note(NOTE), _table(variants, chapter.sites, slug), chart(spread), pair(watched)])
            title = f"Test-time routing of {row}"
            sections.append(Section(slug, "Routing", title, body, (spread, *watched)))
    return sections


def _table(variants: Sequence[Entry], sites: Sequence[str], slug: str) -> Markup:
    rows = []
    for entry in variants:
        per_site = entry.scores["per_site"]
        cells = [dice(per_site[site]["mean"]) if site in per_site else "–" for site in sites]
        rows.append(Row(_name(entry), [*cells, dice(entry.scores["client_avg"])]))
    return table(["Routing", *sites, "Average"], [rows], slug)


def _name(entry: Entry) -> str:
    return re.sub(r".*\(route(, )?(.*)\)$", r"\2", entry.method) or "as it is (by layer)"


def _boxes(variants: Sequence[Entry], sites: Sequence[str], name: str) -> Picture:
    scores = {_name(entry): image_scores(entry) for entry in variants}
    colors = {label: METHOD_COLORS[place % len(METHOD_COLORS)] for place, label in enumerate(scores)}
    return Picture(name, partial(boxes, scores, sites, colors), SPREAD, SPREAD)


def _pictures(by_left: Mapping[str, Mapping[str, Any]], prefix: str) -> tuple[Picture, ...]:
    points, references = mean_curve(by_left), _references(by_left)
    ends = f"{dice(points[0]['dice'])} before tuning, {dice(points[-1]['dice'])} after {points[-1]['seconds']:.2f} s."
    variation = {left: found["variation"] for left, found in by_left.items() if found["variation"]}
    losses = {left: found["points"] for left, found in by_left.items()}
    curve = partial(time_curve, points, references)
    found = [Picture(f"{prefix}-time", curve, f"{TIME} {ends}", f"{TIME} {ends}", "What time buys")]
    if variation:
        bars = partial(variation_bars, variation)
        found.append(Picture(f"{prefix}-variation", bars, VARIATION, VARIATION, "How far the models lie apart"))
    found.append(Picture(f"{prefix}-loss", partial(loss_curves, losses), LOSS, LOSS, "What is tuned"))
    return tuple(found)


def mean_curve(by_left: Mapping[str, Mapping[str, Any]]) -> list[dict[str, float]]:
    """Epoch by epoch the mean over sites; the spread is that over sites, of a single one that over its images."""
    points = []
    for group in zip(*(found["points"] for found in by_left.values()), strict=True):
        scores = [point["dice"] for point in group]
        spread = pstdev(scores) if len(group) > 1 else group[0]["spread"]
        points.append({"seconds": fmean(p["seconds"] for p in group), "dice": fmean(scores), "spread": spread})
    return points


def _references(by_left: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    everywhere: Sequence[Mapping[str, float]] = [found["references"] for found in by_left.values()]
    shared = [mode for mode in everywhere[0] if all(mode in found for found in everywhere)]
    return {mode: fmean(found[mode] for found in everywhere) for mode in shared}
