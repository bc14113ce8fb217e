"""Sites that were left out of training in turn: which models they were given, and what the threshold is worth there.

FedSM, Tables 5 and 11: shares of models at gamma = 0 and at the best gamma, and the Dice there, averaged over the super
models trained without the site. gamma 0 never and 1 always takes the global model. The best gamma is read off the
unseen site's labels, as in the paper: it bounds what a threshold could do and is no way of choosing one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from fedsuper.evaluation.run_files.tables import Threshold
from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.heat_map import heat_map, share_texts
from fedsuper.report.figures.picture import Picture
from fedsuper.report.markup import Cell, Row, join, pair, table
from fedsuper.report.numbers import dice, mean
from fedsuper.report.sections.base import Look, Section

GLOBAL = "global"
AT_ZERO = "Share of an unseen site's images that goes to each model when the global one is never asked (γ = 0)."
AT_BEST = "The same at the γ that would have been best there; only labels can tell it."
HEAD: list[Cell | str] = [
    "Unseen site",
    Cell("Dice, never global", "γ = 0"),
    "γ chosen on seen sites",
    Cell("always global", "γ = 1"),
    Cell("best γ", "by label"),
    "Dice there",
]

Tried = Sequence[Sequence[Threshold]]


def build(chapter: Chapter, look: Look) -> list[Section]:
    """None where no site was left out."""
    sites = chapter.unseen
    if not sites:
        return []
    best = {site: [best_threshold(points) for points in tried] for site, tried in sites.items()}
    at_zero = {site: [next(p for p in points if p.gamma == 0.0) for points in tried] for site, tried in sites.items()}
    pictures = (
        _shares(f"{look.prefix}unseen", at_zero, AT_ZERO, "Never the global model"),
        _shares(f"{look.prefix}unseen-best", best, AT_BEST, "With the best threshold"),
    )
    rows = []
    for site, tried in sites.items():
        told = [dice(_mean_dice(tried, gamma)) for gamma in (0.0, None, 1.0)]
        gammas = ", ".join(dict.fromkeys(f"{point.gamma:g}" for point in best[site]))
        rows.append(Row(site, [*told, gammas, dice(mean([point.dice for point in best[site]]))]))
    body = join([pair(pictures), table(HEAD, [rows], "unseen-sites")])
    return [Section("unseen", "Unseen sites", "Sites that took no part in training", body, pictures)]


def best_threshold(points: Sequence[Threshold]) -> Threshold:
    """The threshold of the highest Dice; of equals the smallest."""
    return max(points, key=lambda point: (point.dice, -point.gamma))


def mean_shares(points: Sequence[Threshold]) -> dict[str, float]:
    """Model -> share of the images it segments, mean over super models."""
    shares: dict[str, float] = {}
    for point in points:
        for model, share in point.chosen.items():
            shares[model] = shares.get(model, 0.0) + float(share) / len(points)
    return shares


def _shares(name: str, at: Mapping[str, Sequence[Threshold]], caption: str, title: str) -> Picture:
    shares = {site: mean_shares(points) for site, points in at.items()}
    known = {model for by_model in shares.values() for model in by_model}
    models = [GLOBAL, *sorted((known | (set(at) if len(at) > 1 else set())) - {GLOBAL})]
    # The unseen site's own model does not exist.
    values = [
        [math.nan if model == site else by_model.get(model, 0.0) for model in models]
        for site, by_model in shares.items()
    ]
    draw = partial(heat_map, values, list(at), models, "unseen site", "segmented by", texts=share_texts(values))
    return Picture(name, draw, caption, caption, title)


def _mean_dice(tried: Tried, gamma: float | None) -> float:
    """Mean Dice at a threshold; None: at each super model's own, chosen on the sites it has seen."""
    return mean([p.dice for points in tried for p in points if (p.validated if gamma is None else p.gamma == gamma)])
