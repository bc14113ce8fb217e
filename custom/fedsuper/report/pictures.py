"""From a chapter to its pictures: each a figure with a name, an alternative text and a caption."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from fedsuper.files import atomic_write_bytes
from fedsuper.report.chapters import Chapter
from fedsuper.report.curves import Curve, roles_of, validation_curve
from fedsuper.report.figures import site_dots, training_curves
from fedsuper.report.heatmaps import heat_map, share_texts
from fedsuper.report.reading import POOLED, Entry
from fedsuper.report.results import AVERAGES, dice, value_of
from fedsuper.report.style import to_png, to_svg
from fedsuper.report.unseen import models_of, share_matrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SELECTOR, PERSONAL, GLOBAL = "selector", "personal", "global"
WIDEST_OF_TWO = 5.2  # inches
MOST_CURVES = 12  # beyond that, methods are shown by one curve each


@dataclass(frozen=True)
class Picture:
    """A figure as the page shows it; `name` is also its file name when it is saved."""

    name: str
    figure: Figure
    alt: str
    caption: str = ""
    title: str = ""

    @property
    def wide(self) -> bool:
        """Too wide to stand beside another."""
        return self.figure.get_figwidth() > WIDEST_OF_TWO

    @cached_property
    def svg(self) -> Markup:
        """Inline SVG; all text in it has been escaped by the writer of the SVG."""
        return Markup(to_svg(self.figure, self.name))

    def save(self, folder: Path) -> Path:
        """Write the figure as a PNG for documents."""
        path = Path(folder) / f"{self.name}.png"
        atomic_write_bytes(path, to_png(self.figure))
        return path


def training_picture(chapter: Chapter, colours: Mapping[str, str], prefix: str) -> Picture | None:
    """Every method's validation curve; pooled training is the horizontal line."""
    curves: list[Curve] = []
    lines: dict[str, float] = {}
    for entry in chapter.entries:
        found = entry_curves(entry)
        if entry.method == POOLED and found:
            lines[entry.label] = max(curve.best[-1] for curve in found)
        else:
            curves += found
    if not curves:
        return None
    caption = "Dashed: best of pooled training, over all validation images together." if lines else ""
    if len(curves) > MOST_CURVES:
        own = {curve.method: curve for curve in curves}
        if len(own) < len(curves):
            caption += " Of several models of a method only the personalized ones are shown."
        curves = [replace(curve, label=curve.method) for curve in own.values()]
    shown = ", ".join(f"{curve.label} {dice(curve.best[-1])}" for curve in curves)
    alt = f"Validation Dice by round, best at the end: {shown}" + "".join(
        f"; {label} {dice(v)}" for label, v in lines.items()
    )
    by_label = {curve.label: colours[curve.method] for curve in curves} | dict(colours)
    return Picture(f"{prefix}training", training_curves(curves, lines, by_label), alt, caption)


def entry_curves(entry: Entry) -> list[Curve]:
    """One curve per segmentation role; the role a method is known for (personal before global) comes last."""
    roles = [role for role in roles_of(entry.histories[0]) if role != SELECTOR] if entry.histories else []
    roles.sort(key=lambda role: role == PERSONAL)
    found = [
        validation_curve(
            entry.histories,
            entry.label,
            role,
            entry.label if len(roles) == 1 else f"{entry.label}, {role}",
            role == PERSONAL,
        )
        for role in roles
    ]
    return [curve for curve in found if curve is not None]


def dots_picture(chapter: Chapter, colours: Mapping[str, str], prefix: str) -> Picture | None:
    """The table's numbers as dots, where there is something to compare."""
    if len(chapter.comparable) < 2:
        return None
    rows = [*chapter.sites, *AVERAGES]
    scores = {
        e.label: {_row_name(r): v for r in rows if (v := value_of(e.scores, r)) is not None} for e in chapter.comparable
    }
    references = {entry.label for entry in chapter.comparable if entry.reference}
    made = site_dots(scores, [_row_name(row) for row in rows], colours, references)
    return Picture(
        f"{prefix}sites", made, "Test Dice of every method at every site; the numbers are in the table above"
    )


def matrix_picture(chapter: Chapter, prefix: str) -> Picture | None:
    """Models of single sites on every site's test images (the papers' off-diagonal numbers)."""
    entry = next((entry for entry in chapter.scored if entry.scores.get("site_by_model")), None)
    if entry is None:
        return None
    matrix = entry.scores["site_by_model"]
    models = list(matrix)
    values = [[matrix[model].get(site, math.nan) for site in chapter.sites] for model in models]
    own = [(y, chapter.sites.index(model)) for y, model in enumerate(models) if model in chapter.sites]
    known = [value for row in values for value in row if not math.isnan(value)]
    made = heat_map(values, models, chapter.sites, "trained at", "tested at", (min(known), max(known)), framed=own)
    at_home = [values[y][x] for y, x in own if not math.isnan(values[y][x])]
    away = [v for y, row in enumerate(values) for x, v in enumerate(row) if (y, x) not in own and not math.isnan(v)]
    alt = f"Heat map of {len(models)} models by {len(chapter.sites)} sites"
    caption = f"{entry.label}: test Dice of each site's own model at every site. Framed: at home."
    if at_home and away:
        caption += f" At home {dice(sum(at_home) / len(at_home))} on average, elsewhere {dice(sum(away) / len(away))}."
    return Picture(f"{prefix}site-by-model", made, f"{alt}. {caption}", caption)


def unseen_picture(chapter: Chapter, prefix: str) -> Picture | None:
    """Which sites' models the selector gives to images of a site it has never seen (FedSM, Table 5)."""
    sites = chapter.unseen
    if not sites:
        return None
    models = models_of(sites)
    values = share_matrix(sites, models)
    names = [site.site for site in sites]
    made = heat_map(values, names, models, "unseen site", "segmented by", texts=share_texts(values))
    caption = "Share of an unseen site's images that goes to each model when the global one is never asked (γ = 0)."
    return Picture(f"{prefix}unseen", made, caption, caption)


def _row_name(key: str) -> str:
    return AVERAGES.get(key, key)
