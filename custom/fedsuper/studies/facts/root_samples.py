"""All labeled samples of a data root, pooled, as a learning curve needs them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from fedsuper.data.dataset import concat, load_samples
from fedsuper.data.layout import find_sites, list_items
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.preprocess_settings import Preprocess
from fedsuper.data.task import read_task
from fedsuper.studies.facts.learning_curve import take


def pooled(root: Path, pixels: int) -> Samples:
    """Every image of every site; a patient is named by site and case."""
    task, settings = read_task(root), Preprocess(image_size=pixels)
    parts = []
    for site in find_sites(root):
        part = load_samples(root / site, list_items(root / site, require_labels=True), task, settings)
        parts.append(replace(part, cases=[f"{site}/{case}" for case in part.cases]))
    return concat(parts)


def few_slices(samples: Samples, most: int) -> Samples:
    """At most so many slices of a patient, evenly spread over those that show the region."""
    shown: dict[str, list[int]] = defaultdict(list)
    for row, case in enumerate(samples.cases):
        if samples.masks[row].any():
            shown[case].append(row)
    return take(samples, [row for rows in shown.values() for row in _spread(rows, most)])


def _spread(rows: list[int], most: int) -> list[int]:
    if len(rows) <= most:
        return rows
    return [rows[round((number + 0.5) * len(rows) / most - 0.5)] for number in range(most)]
