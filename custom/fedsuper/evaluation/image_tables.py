"""The tables with a line per image: `per_image.csv` and `measurements.csv`."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedsuper.evaluation.evaluate import ScoredImage
from fedsuper.evaluation.metrics.details import NAMES


@dataclass(frozen=True)
class Scored:
    """One trained method with one seed: its scored images, and further numbers in plain JSON (`notes`) to report."""

    method: str
    seed: int
    rows: list[ScoredImage]
    notes: dict[str, Any] = field(default_factory=dict)


def per_image_csv(runs: Sequence[Scored]) -> str:
    """One line per method, seed and image; boundary distances follow, where they were scored, as `<region>_hd95` ..."""
    every = [row for run in runs for row in run.rows]
    regions = list(dict.fromkeys(region for row in every for region in row.dice))
    further = [(region, name) for region in regions for name in NAMES] if any(row.detail for row in every) else []
    header = ["method", "seed", "site", "image", "case", *regions, "mean", "model", "gamma", "selector", "p_own"]
    lines = []
    for run in runs:
        for row in run.rows:
            scores = [_number(row.dice.get(region)) for region in regions] + [_number(row.mean)]
            p_own = row.probabilities.get(row.own) if row.own is not None else None
            gamma = "" if row.gamma is None else f"{row.gamma:g}"
            found = row.detail.boundaries if row.detail else {}
            distances = [_number(getattr(found.get(region), name, None)) for region, name in further]
            lines.append([*_who(run, row), *scores, row.chosen, gamma, row.predicted or "", _number(p_own), *distances])
    return _csv([*header, *(f"{region}_{name}" for region, name in further)], lines)


def measurements_csv(runs: Sequence[Scored]) -> str:
    """One line per method, seed, image and measurement; what is undefined is left blank."""
    header = ["method", "seed", "site", "image", "case", "measurement", "predicted", "true", "error"]
    lines = []
    for run in runs:
        for row in run.rows:
            for name, one in (row.detail.measured if row.detail else {}).items():
                values = ["" if math.isnan(v) else f"{v:.6g}" for v in (one.predicted, one.true, one.error)]
                lines.append([*_who(run, row), name, *values])
    return _csv(header, lines)


def _who(run: Scored, row: ScoredImage) -> list[str]:
    return [run.method, str(run.seed), row.site, row.image, row.case]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


def _csv(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *lines])
    return text.getvalue()
