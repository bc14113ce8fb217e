"""How well the selector knows the sites, how far its confidence can be believed, and which models it really used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fedsuper.evaluation.evaluate import ScoredImage

STEPS = 10


def selector_report(rows: Sequence[ScoredImage]) -> dict[str, Any] | None:
    """Confusion matrix, accuracy and balanced accuracy over images of sites that took part; None without a selector.

    `confusion[true][predicted]` counts images; balanced accuracy is the mean over sites of the share recognized. A
    selector that also knows the global model as a class may rightly answer `global`, so for it these numbers describe
    and do not judge.
    """
    seen = [row for row in rows if row.own is not None and row.probabilities]
    if not seen:
        return None
    classes = list(dict.fromkeys(name for row in seen for name in row.probabilities))
    counts = Counter((row.own, row.predicted) for row in seen)
    sites = [name for name in classes if any(row.own == name for row in seen)]
    confusion = {site: {name: counts[site, name] for name in classes} for site in sites}
    recall = {site: confusion[site][site] / sum(confusion[site].values()) for site in sites}
    sure = [max(row.probabilities.values()) for row in seen]
    return {
        "balanced_accuracy": sum(recall.values()) / len(recall),
        "accuracy": sum(confusion[site][site] for site in sites) / len(seen),
        "recall": recall,
        "confusion": confusion,
        "calibration": calibration(sure, [row.predicted == row.own for row in seen]),
    }


def calibration(confidence: Sequence[float], right: Sequence[bool]) -> dict[str, Any]:
    """How often images of each confidence were recognized, in ten equal steps; `error` is the mean gap (ECE).

    ECE = sum over steps b of n_b / n |accuracy_b - confidence_b|.
    """
    step = [min(int(value * STEPS), STEPS - 1) for value in confidence]
    bins = []
    for number in sorted(set(step)):
        inside = [index for index, place in enumerate(step) if place == number]
        mean = sum(confidence[index] for index in inside) / len(inside)
        bins.append({"confidence": mean, "accuracy": sum(right[i] for i in inside) / len(inside), "n": len(inside)})
    gaps = [one["n"] * abs(one["accuracy"] - one["confidence"]) for one in bins]
    return {"bins": bins, "error": sum(gaps) / len(confidence)}


def selection_frequencies(rows: Sequence[ScoredImage]) -> dict[str, dict[str, float]]:
    """For every site the share of its images that each model segmented."""
    sites = dict.fromkeys(row.site for row in rows)
    shares = {}
    for site in sites:
        chosen = Counter(row.chosen for row in rows if row.site == site)
        shares[site] = {model: count / chosen.total() for model, count in sorted(chosen.items())}
    return shares
