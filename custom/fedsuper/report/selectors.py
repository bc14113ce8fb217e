"""The pictures about a selector: what it confuses, how it learned, when it is trusted, whom it chose, what it sees."""

from __future__ import annotations

from fedsuper.report.curves import site_scores, validation_curve
from fedsuper.report.figures import feature_map, gamma_curve, selector_curve
from fedsuper.report.heatmaps import heat_map, share_texts
from fedsuper.report.pictures import GLOBAL, SELECTOR, Picture
from fedsuper.report.reading import FEATURES, Entry, read_features
from fedsuper.report.results import dice
from fedsuper.report.style import METHOD_COLOURS


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
    made = heat_map(values, list(shares), models, "image from", "segmented by", texts=share_texts(values))
    caption = "Share of each site's test images that each model segmented."
    return Picture(
        f"{prefix}frequencies", made, f"Selection frequencies. {caption}", caption, "Which model did the work?"
    )


def _features(entry: Entry, colour: str, prefix: str) -> Picture | None:
    path = entry.run / FEATURES
    points = read_features(path, entry.method) if path.exists() else {}
    if not points:
        return None
    colours = {site: METHOD_COLOURS[index % len(METHOD_COLOURS)] for index, site in enumerate(points)}
    caption = "t-SNE map of the selector's features of test images: sites that look alike lie close together."
    return Picture(f"{prefix}features", feature_map(points, colours), caption, caption, "What it sees")
