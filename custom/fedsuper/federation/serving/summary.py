"""From a prediction's folder to what may leave the site: counts and means over enough patients, no name."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from fedsuper.data.images.io import read_image, read_label
from fedsuper.data.layout import Item
from fedsuper.data.task import Task
from fedsuper.evaluation.mask_dice import mask_dice
from fedsuper.federation.serving.request import MINIMUM, PredictionSummary
from fedsuper.inference.predict.routing_table import ROUTING

OTHER = "other"


@dataclass(frozen=True)
class Segmented:
    """One image's row of routing.csv, its patient, and its Dice by region where it has a label."""

    case: str
    model: str
    confidence: float | None
    review: bool
    dice: dict[str, float] | None


def segmented_images(outbox: Path, images: Sequence[Path], items: Mapping[Path, Item], task: Task) -> list[Segmented]:
    """What the prediction in `outbox` says of `images`; `items` are those that a site's folder knows more of."""
    with open(outbox / ROUTING, newline="", encoding="utf-8") as file:
        rows: dict[str, list[dict[str, str]]] = {}
        for row in csv.DictReader(file):
            rows.setdefault(row["image"], []).append(row)
    found = []
    for image in images:
        if str(image) in rows:
            of_image, item = rows[str(image)], items.get(image)
            likeliest = [max(chances) for row in of_image if (chances := _chances(row))]
            found.append(Segmented(
                case=item.case if item else image.name,
                model=of_image[0]["model"] if len({row["model"] for row in of_image}) == 1 else OTHER,
                confidence=fmean(likeliest) if likeliest else None,
                review=any(row.get("review") == "yes" for row in of_image),
                dice=_dice(outbox / of_image[0]["mask"], item, task) if of_image[0]["mask"] else None,
            ))
    return found


def summarize(
    rows: Sequence[Segmented], failed: int, seconds: float, minimum: int = MINIMUM
) -> PredictionSummary:
    """Counts and means; whatever rests on fewer than `minimum` patients is withheld."""
    confidences = [row.confidence for row in rows if row.confidence is not None]
    labeled = [row for row in rows if row.dice is not None]
    scores = [row.dice for row in labeled if row.dice is not None]
    enough = _patients(labeled) >= minimum
    dice = {region: fmean(score[region] for score in scores) for region in scores[0]} if enough else None
    if _patients(rows) < minimum:
        return PredictionSummary(images=None, shares=None, confidence=None, review=None, failed=None, seconds=seconds,
                                 dice=None, labeled=None)
    return PredictionSummary(
        images=len(rows),
        shares=_shares(rows, minimum),
        confidence=fmean(confidences) if len(confidences) == len(rows) else None,
        review=_count(sum(row.review for row in rows), _patients([row for row in rows if row.review]), minimum),
        failed=_count(failed, failed, minimum),
        seconds=seconds,
        dice=None if dice is None else dice | {"mean": fmean(dice.values())},
        labeled=None if dice is None else len(labeled),
    )


def _shares(rows: Sequence[Segmented], minimum: int) -> dict[str, float]:
    """The part of each model. Those of too few patients stand together, with the next rarest if they must."""
    counts = Counter(row.model for row in rows)
    patients = {model: len({row.case for row in rows if row.model == model}) for model in counts}
    by_size = sorted(counts, key=lambda model: (patients[model], model))
    rare = [model for model in by_size if patients[model] < minimum or model == OTHER]
    for model in by_size:
        if not rare or sum(patients[name] for name in rare) >= minimum:
            break
        if model not in rare:
            rare.append(model)
    told = {model: count / len(rows) for model, count in sorted(counts.items()) if model not in rare}
    return told | ({OTHER: sum(counts[model] for model in rare) / len(rows)} if rare else {})


def _patients(rows: Sequence[Segmented]) -> int:
    return len({row.case for row in rows})


def _count(number: int, patients: int, minimum: int) -> int | None:
    return number if number == 0 or patients >= minimum else None


def _chances(row: Mapping[str, str]) -> list[float]:
    return [float(value) for name, value in row.items() if name.startswith("p_") and value]


def _dice(mask: Path, item: Item | None, task: Task) -> dict[str, float] | None:
    if item is None or item.label is None:
        return None
    image = read_image(item.image)
    return mask_dice(read_label(mask, image), read_label(item.label, image), task.regions)
