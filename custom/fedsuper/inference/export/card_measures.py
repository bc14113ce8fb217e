"""The chapters of a model card that hold numbers: results, the choice's calibration, familiarity, privacy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fedsuper.core.supermodel import SELECTOR
from fedsuper.core.validated.selection_choice import BOTH, STATISTICS
from fedsuper.inference.export.card_text import UNKNOWN, plain, table
from fedsuper.inference.export.parts import Parts
from fedsuper.inference.modes.select import gamma_of

LOW, HIGH = "mean_low", "mean_high"  # a mean score's 95% interval, where a site told it


def sites(parts: Parts) -> str:
    """One row per site: how many images it trained with, and what its test images score in the super model's mode."""
    manifest, regions = parts.manifest, list(parts.predictor.task.regions)
    trained: Mapping[str, int] = manifest.get("provenance", {}).get("samples", {})
    heads = ("site", "training samples", "test images", *map(plain, regions), "mean", "95% interval of the mean")
    rows = []
    for site in parts.predictor.super_model.sites:
        for label, scores in _scores(parts, site):
            numbers = [plain(scores.get(region)) for region in (*regions, "mean")]
            rows.append((label, plain(trained.get(site)), plain(scores.get("n")), *numbers, _interval(scores)))
    validated = manifest.get("metrics", {}).get("validation", {})
    own = [(plain(_model(parts, key)), plain(entry.get("score")), _whole(entry.get("round")))
           for key, entry in validated.items() if key != SELECTOR]
    text = f"Dice on test images in the super model's own mode, each site its own images.\n\n{table(heads, rows)}"
    kept = table(("model", "validation Dice", "of round"), own) if own else f"They are {UNKNOWN}."
    return f"{text}\n\nValidation scores by which each model was kept:\n\n{kept}"


def calibration(parts: Parts) -> str:
    """How the selector and the gate were set, and how often the selector is right."""
    predictor, manifest = parts.predictor, parts.manifest
    if predictor.super_model.selector is None:
        return "There is no selector: nothing is chosen by image."
    statistics, utility = manifest.get("statistics") or {}, manifest.get("utility") or {}
    kind = predictor.selection.kind
    closed = kind == STATISTICS
    trained = manifest.get("metrics", {}).get("validation", {}).get(SELECTOR, {}).get("score")
    net = f"net {predictor.study.selector.net}"
    closed_name = "closed form, from the sites' feature sums"
    names = {STATISTICS: closed_name, BOTH: f"the mean of {net} and the {closed_name}"}
    rows = [
        ("Selector", names.get(kind, net)),
        ("Gate", predictor.selection.gate),
        ("Accuracy on validation images", plain(statistics.get("accuracy") if closed else trained)),
        ("gamma", plain(gamma_of(predictor)) if manifest.get("gamma") is not None
         else f"{gamma_of(predictor)} (a default: the sites did not choose one)"),
    ]
    if closed:
        rows += [(f"{key.capitalize()}", plain(statistics.get(key))) for key in ("shrinkage", "temperature")]
        rows += [("Cross-entropy on validation images", plain(statistics.get("cross_entropy")))]
    if utility:
        rows += [("Temperature of the expected-Dice gate", plain(utility.get("temperature")))]
    text = table(("", ""), rows)
    curve = manifest.get("gamma_curve")
    if not curve:
        return f"{text}\n\nHow Dice changes with gamma is {UNKNOWN}."
    points = [tuple(plain(point.get(key)) for key in ("gamma", "dice", "global_share")) for point in curve]
    return f"{text}\n\n{table(('gamma', 'validation Dice', 'share left to the global model'), points)}"


def familiarity(parts: Parts) -> str:
    """Whether the super model can tell an image that no site has the like of."""
    statistics = parts.manifest.get("statistics") or {}
    if not statistics.get("farther"):
        return ("This super model cannot tell: it was made without the sites' feature sums, or no site could count on "
                "validation images. Every image gets a mask without a warning.")
    return (f"The super model can tell: `fedsuper predict` gives every image its familiarity, the share of the "
            f"sites' own images expected farther from every site. Below {plain(statistics.get('review_below'))} a "
            "person should look. In an exported selector it counts only with the gate expected-dice.")


def privacy(parts: Parts) -> str:
    """What the record says of noise; images never left the sites."""
    statistics = parts.manifest.get("statistics") or {}
    weights = ("Images stayed at their sites. The record tells of no noise on the weights: "
               "count on no differential privacy of theirs.")
    if statistics.get("epsilon") is None:
        return f"{weights} The feature sums, where there are any, bear no noise either."
    return (f"{weights} The feature sums bear noise: epsilon {plain(float(statistics['epsilon']))} at delta "
            f"{statistics.get('delta', UNKNOWN)} for each site's sums.")


def _scores(parts: Parts, site: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A site's test scores, one for each of its folders; one row without numbers where there are none."""
    told: Mapping[str, Mapping[str, Any]] = parts.manifest.get("metrics", {}).get("test", {}).get(site, {})
    name = plain(parts.public_name(site))
    if len(told) < 2:
        yield name, next(iter(told.values()), {})
        return
    for number, scores in enumerate(told.values(), start=1):
        yield f"{name}, folder {number}", scores


def _interval(scores: Mapping[str, Any]) -> str:
    if scores.get(LOW) is None or scores.get(HIGH) is None:
        return UNKNOWN
    return f"{plain(scores[LOW])} to {plain(scores[HIGH])}"


def _whole(value: float | None) -> str:
    return UNKNOWN if value is None else str(int(value))


def _model(parts: Parts, key: str) -> str:
    return parts.public_name(key.removeprefix("personal/"))
