"""Models of single sites on every site's test images (the papers' off-diagonal numbers)."""

from __future__ import annotations

import math

from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.heat_map import heat_map
from fedsuper.report.figures.picture import Picture
from fedsuper.report.markup import beside
from fedsuper.report.numbers import dice, mean
from fedsuper.report.sections.base import Look, Section


def build(chapter: Chapter, look: Look) -> list[Section]:
    """The matrix of the first method that was scored this way."""
    entry = next((entry for entry in chapter.scored if entry.scores.get("site_by_model")), None)
    if entry is None:
        return []
    matrix = entry.scores["site_by_model"]
    models, sites = list(matrix), chapter.sites
    values = [[matrix[model].get(site, math.nan) for site in sites] for model in models]
    own = [(y, sites.index(model)) for y, model in enumerate(models) if model in sites]
    known = [value for row in values for value in row if not math.isnan(value)]
    at_home = [values[y][x] for y, x in own if not math.isnan(values[y][x])]
    away = [v for y, row in enumerate(values) for x, v in enumerate(row) if (y, x) not in own and not math.isnan(v)]
    caption = f"{entry.label}: test Dice of each site's own model at every site. Framed: at home."
    if at_home and away:
        caption += f" At home {dice(mean(at_home))} on average, elsewhere {dice(mean(away))}."
    picture = Picture(
        f"{look.prefix}site-by-model",
        lambda: heat_map(values, models, sites, "trained at", "tested at", (min(known), max(known)), framed=own),
        f"Heat map of {len(models)} models by {len(sites)} sites. {caption}",
        caption,
    )
    title = "One site's model on another site's images"
    return [Section("matrix", "Site by model", title, beside(picture), (picture,))]
