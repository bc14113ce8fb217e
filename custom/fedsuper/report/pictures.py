"""From a chapter to its pictures: each a figure with a name, an alternative text and a caption."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from fedsuper.files import atomic_write_bytes
from fedsuper.report.chapters import Chapter
from fedsuper.report.curves import Curve, roles_of, site_scores, validation_curve
from fedsuper.report.figures import feature_map, gamma_curve, selector_curve, site_dots, training_curves
from fedsuper.report.heatmaps import heat_map
from fedsuper.report.reading import FEATURES, POOLED, Entry, read_features
from fedsuper.report.results import AVERAGES, dice, value_of
from fedsuper.report.style import METHOD_COLOURS, to_png, to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SELECTOR, PERSONAL, GLOBAL = "selector", "personal", "global"


@dataclass(frozen=True)
class Picture:
    """A figure as the page shows it; `name` is also its file name when it is saved."""

    name: str
    figure: Figure
    alt: str
    caption: str = ""
    title: str = ""

    @cached_property
    def svg(self) -> Markup:
        """Inline SVG; all text in it has been escaped by the writer of the SVG."""
        return Markup(to_svg(self.figure, self.name))  # noqa: S704

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
    shown = ", ".join(f"{curve.label} {dice(curve.best[-1])}" for curve in curves)
    alt = f"Validation Dice by round, best at the end: {shown}" + "".join(
        f"; {label} {dice(v)}" for label, v in lines.items()
    )
    caption = "Dashed: best of pooled training, over all validation images together." if lines else ""
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
    if len(chapter.scored) < 2:
        return None
    rows = [*chapter.sites, *AVERAGES]
    scores = {
        e.label: {_row_name(r): v for r in rows if (v := value_of(e.scores, r)) is not None} for e in chapter.scored
    }
    references = {entry.label for entry in chapter.scored if entry.reference}
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


def selector_pictures(entry: Entry, colour: str, prefix: str) -> list[Picture]:
    """Confusion matrix, accuracy by round, gamma curve and selection frequencies of one super model with a selector."""
    makers = (_confusion, _selector_rounds, _gamma, _frequencies, _features)
    return [picture for make in makers if (picture := make(entry, colour, prefix)) is not None]


def _confusion(entry: Entry, colour: str, prefix: str) -> Picture | None:
    report = entry.scores.get("selector")
    if not report:
        return None
    counts = report["confusion"]
    rows = list(counts)
    columns = list(dict.fromkeys(name for row in counts.values() for name in row))
    totals = {row: sum(counts[row].values()) or 1 for row in rows}
    shares = [[counts[row].get(column, 0) / totals[row] for column in columns] for row in rows]
    texts = [
        [f"{counts[row].get(column, 0):g}" if counts[row].get(column) else "·" for column in columns] for row in rows
    ]
    made = heat_map(shares, rows, columns, "image from", "taken for", texts=texts)
    caption = (
        f"Test images by true and recognised site. Balanced accuracy {dice(report['balanced_accuracy'])}, "
        f"accuracy {dice(report['accuracy'])}."
    )
    return Picture(
        f"{prefix}confusion",
        made,
        f"Confusion matrix of the selector. {caption}",
        caption,
        "Which site is an image from?",
    )


def _selector_rounds(entry: Entry, colour: str, prefix: str) -> Picture | None:
    rounds, scores = site_scores(entry.histories[0], SELECTOR) if entry.histories else ([], {})
    if not rounds:
        return None
    curve = validation_curve(entry.histories[:1], entry.label, SELECTOR, entry.label, False)
    assert curve is not None  # there are rounds
    made = selector_curve(rounds, scores, curve.mean, colour)
    caption = f"Bold: balanced accuracy on validation images, best {dice(curve.best[-1])}. Thin: each site's images."
    return Picture(
        f"{prefix}selector-rounds", made, f"Selector accuracy by round. {caption}", caption, "How it learned"
    )


def _gamma(entry: Entry, colour: str, prefix: str) -> Picture | None:
    points, chosen = entry.manifest.get("gamma_curve"), entry.manifest.get("gamma")
    if not points or chosen is None:
        return None
    used = dice(min(points, key=lambda point: abs(point["gamma"] - chosen))["dice"])
    caption = (
        f"Below a confidence of γ = {chosen:g} an image goes to the global model (bars: how many do). "
        f"Chosen on the sites' validation images, Dice {used}."
    )
    return Picture(
        f"{prefix}gamma",
        gamma_curve(points, float(chosen), colour),
        f"Gamma curve. {caption}",
        caption,
        "When to trust it",
    )


def _frequencies(entry: Entry, colour: str, prefix: str) -> Picture | None:
    shares = entry.scores.get("selected")
    if not shares or not entry.scores.get("selector"):
        return None
    used = {model for row in shares.values() for model in row}
    models = [
        name for name in (GLOBAL, *entry.manifest.get("sites", [])) if name in used or name in shares or name == GLOBAL
    ]
    models += sorted(used - set(models))
    values = [[shares[site].get(model, 0.0) for model in models] for site in shares]
    texts = [[f"{value:.2f}" if value else "·" for value in row] for row in values]
    made = heat_map(values, list(shares), models, "image from", "segmented by", texts=texts)
    caption = "Share of each site's test images that each model segmented."
    return Picture(
        f"{prefix}frequencies", made, f"Selection frequencies. {caption}", caption, "Which model did the work?"
    )


def _features(entry: Entry, colour: str, prefix: str) -> Picture | None:
    path = entry.run / FEATURES
    if not path.exists():
        return None
    points = read_features(path)
    colours = {site: METHOD_COLOURS[index % len(METHOD_COLOURS)] for index, site in enumerate(points)}
    caption = "t-SNE map of the selector's features of test images: sites that look alike lie close together."
    return Picture(f"{prefix}features", feature_map(points, colours), caption, caption, "What it sees")


def _row_name(key: str) -> str:
    return AVERAGES.get(key, key)
