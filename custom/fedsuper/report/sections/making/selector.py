"""The selector of a super model: what it confuses, how it learned, when it is trusted, whom it chose, what it sees."""

from __future__ import annotations

import re

from fedsuper.core.mode import GLOBAL, OWN
from fedsuper.evaluation.run_files.tables import read_features
from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.heat_map import heat_map, share_texts
from fedsuper.report.figures.picture import Picture
from fedsuper.report.figures.selector_figures import calibration_curve, feature_map, gamma_curve, selector_curve
from fedsuper.report.finding import selector_caveat
from fedsuper.report.histories import SELECTOR, site_scores, validation_curve
from fedsuper.report.markup import join, note, pair, warning
from fedsuper.report.numbers import dice
from fedsuper.report.runs import Entry
from fedsuper.report.sections.base import Look, Section

NOTE = "It tells from the image alone which site’s model knows its kind."


def build(chapter: Chapter, look: Look) -> list[Section]:
    """A section for every method that predicts with its selector; every super model may hold a closed-form one."""
    sections: list[Section] = []
    taken: set[str] = set()
    selecting = [entry for entry in chapter.entries if entry.scores.get("mode") not in (GLOBAL, OWN)]
    for number, entry in enumerate(selecting):
        slug = re.sub(r"[^a-z0-9]+", "-", entry.label.lower()).strip("-") or "method"
        slug = f"{slug}-{number}" if slug in taken else slug
        taken.add(slug)
        drawers = (_confusion, _calibration, _selector_rounds, _gamma, _frequencies, _features)
        drawn = (draw(entry, look.colors[entry.label], f"{look.prefix}{slug}-") for draw in drawers)
        pictures = tuple(picture for picture in drawn if picture is not None)
        if pictures:
            words = [note(NOTE), *(warning(line) for line in [selector_caveat(entry)] if line)]
            name, body = f"Selector of {entry.label}", join([*words, pair(pictures)])
            sections.append(Section(f"selector-{slug}", name, f"The selector of {entry.label}", body, pictures))
    return sections


def _confusion(entry: Entry, color: str, prefix: str) -> Picture | None:
    report = entry.scores.get("selector")
    if not report:
        return None
    counts = report["confusion"]
    rows = list(counts)
    columns = list(dict.fromkeys(name for row in counts.values() for name in row))
    totals = {row: sum(counts[row].values()) or 1 for row in rows}
    shares = [[counts[row].get(column, 0) / totals[row] for column in columns] for row in rows]
    texts = [[f"{counts[row][column]:g}" if counts[row].get(column) else "·" for column in columns] for row in rows]
    caption = (
        f"Test images by true and recognized site. Balanced accuracy {dice(report['balanced_accuracy'])}, "
        f"accuracy {dice(report['accuracy'])}."
    )
    return Picture(
        f"{prefix}confusion",
        lambda: heat_map(shares, rows, columns, "image from", "taken for", texts=texts),
        f"Confusion matrix of the selector. {caption}",
        caption,
        "Which site is an image from?",
    )


def _calibration(entry: Entry, color: str, prefix: str) -> Picture | None:
    found = (entry.scores.get("selector") or {}).get("calibration")
    if not found:
        return None
    caption = (
        "How often an image is recognized, by how sure the selector is of it; dots are as large as their number of "
        f"images. On the dashed line its confidence can be taken at its word: mean gap {dice(found['error'])}."
    )
    return Picture(
        f"{prefix}calibration",
        lambda: calibration_curve(found["bins"], color),
        f"Calibration of the selector. {caption}",
        caption,
        "How far can its confidence be believed?",
    )


def _selector_rounds(entry: Entry, color: str, prefix: str) -> Picture | None:
    rounds, scores = site_scores(entry.histories[0], SELECTOR) if entry.histories else ([], {})
    if not rounds:
        return None
    curve = validation_curve(entry.histories[:1], entry.label, SELECTOR, entry.label, False)
    assert curve is not None  # there are rounds
    best, mean = curve.best[-1], curve.mean
    caption = f"Bold: balanced accuracy on validation images, best {dice(best)}. Thin: each site's images."
    return Picture(
        f"{prefix}selector-rounds",
        lambda: selector_curve(rounds, scores, mean, color),
        f"Selector accuracy by round. {caption}",
        caption,
        "How it learned",
    )


def _gamma(entry: Entry, color: str, prefix: str) -> Picture | None:
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
        lambda: gamma_curve(points, float(chosen), color),
        f"Gamma curve. {caption}",
        caption,
        "When to trust it",
    )


def _frequencies(entry: Entry, color: str, prefix: str) -> Picture | None:
    shares = entry.scores.get("selected")
    if not shares or not entry.scores.get("selector"):
        return None
    used = {model for row in shares.values() for model in row}
    known = [GLOBAL, *(name for name in entry.manifest.get("sites", []) if name in used or name in shares)]
    models = known + sorted(used - set(known))
    values = [[shares[site].get(model, 0.0) for model in models] for site in shares]
    caption = "Share of each site's test images that each model segmented."
    return Picture(
        f"{prefix}frequencies",
        lambda: heat_map(values, list(shares), models, "image from", "segmented by", texts=share_texts(values)),
        f"Selection frequencies. {caption}",
        caption,
        "Which model did the work?",
    )


def _features(entry: Entry, color: str, prefix: str) -> Picture | None:
    points = read_features(entry.run, entry.method)
    if not points:
        return None
    caption = (
        "The selector's features of every test image on their first two principal axes. What the other axes hold is "
        "not seen here: sites that overlap may still be told apart."
    )
    return Picture(f"{prefix}features", lambda: feature_map(points), caption, caption, "What it sees")
