"""`routing.csv`: which model segmented which image, and why."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from fedsuper.inference.segment import Prediction

ROUTING = "routing.csv"
Row = dict[str, str]
QUALITY = ("quality", "quality_low", "quality_high")  # estimated Dice and the interval nine in ten lie in


def routing_rows(image: str, prediction: Prediction, mask: str) -> list[Row]:
    """One row for an image, with its slices' means; one per slice where their models differ.

    `p_SITE` are the selector's probabilities, `w_MODEL` the models' shares in the answer where several have one;
    whatever else a mode tells of an image in single numbers has a column too.
    """
    whole = len(set(prediction.chosen)) == 1
    groups = [range(len(prediction.chosen))] if whole else [range(at, at + 1) for at in range(len(prediction.chosen))]
    rows = []
    for number, slices in enumerate(groups):
        first = slices[0]
        told = [prediction.details[at] for at in slices if at < len(prediction.details)]
        shares = [prediction.weights[at] for at in slices if at < len(prediction.weights)]
        rows.append({
            "image": image,
            "slice": "" if whole else str(number),
            "model": prediction.chosen[first],
            **_probabilities(prediction, slices),
            **{f"w_{name}": f"{sum(one[name] for one in shares) / len(shares):.6f}" for name in (shares or [{}])[0]},
            "gamma": "" if prediction.gamma is None else f"{prediction.gamma:g}",
            **{name: f"{value:g}" for name, value in (told or [{}])[0].items() if _is_number(value)},
            **{name: f"{one:.4f}" for name, one in zip(QUALITY, prediction.quality or (), strict=False)},
            "familiarity": "" if prediction.familiarity is None else f"{prediction.familiarity:.4f}",
            "review": "" if _cannot_tell(prediction) else "yes" if prediction.review else "no",
            "mask": mask,
        })
    return rows


def routing_csv(rows: Iterable[Row], classes: Sequence[str]) -> str:
    """All rows as a table; columns that a mode adds stand where the first row that has them puts them."""
    before = ["image", "slice", "model", *(f"p_{name}" for name in classes)]
    after = ["familiarity", "review", "mask"]
    rows = list(rows)
    names = [name for row in rows for name in row if name not in before and name not in after]
    columns = [*before, *dict.fromkeys(["gamma", *names]), *after]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _cannot_tell(prediction: Prediction) -> bool:
    return prediction.familiarity is None and prediction.quality is None


def _probabilities(prediction: Prediction, slices: range) -> Row:
    if prediction.selector is None:
        return {}
    mean = prediction.selector[slices.start : slices.stop].mean(dim=0).tolist()
    return {f"p_{name}": f"{value:.6f}" for name, value in zip(prediction.classes, mean, strict=True)}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
