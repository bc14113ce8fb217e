"""What a few labels are worth at a hospital outside: `adapt` with its first 3 and 5 images, scored on the rest."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedsuper.core.supermodel import SuperModel
from fedsuper.data.layout import Item, list_items
from fedsuper.evaluation.outside import OutsideRow, score_outside
from fedsuper.inference.modes import SITE_PREFIX
from fedsuper.studies.adaptation.adapt import adapt

COUNTS = (3, 5)
STEPS = 100


def score_with_labels(
    super_model: SuperModel, root: Path, site: str, counts: Sequence[int] = COUNTS, seed: int = 0, steps: int = STEPS
) -> list[OutsideRow]:
    """A row `3 labels`, `5 labels`, ... for the model that so many labels of `ROOT/<site>` make; all images scored."""
    rows = []
    items = list_items(root / site, require_labels=True)
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            few = _with_labels_of(items[:count], items, Path(folder) / site)
            grown, _, _ = adapt(super_model, few, steps, seed)
        (row,) = score_outside(grown, root, site, [f"{SITE_PREFIX}{site}"])
        rows.append(replace(row, mode=f"{count} labels"))
    return rows


def on_the_rest(rows: Sequence[OutsideRow], root: Path, site: str, labeled: int = max(COUNTS)) -> list[OutsideRow]:
    """The same rows without the images that any of them was trained on, so that rows compare."""
    trained = {item.name for item in list_items(root / site, require_labels=True)[:labeled]}
    return [replace(row, images=[image for image in row.images if image.image not in trained]) for row in rows]


def _with_labels_of(labeled: Sequence[Item], items: Sequence[Item], folder: Path) -> Path:
    """A site folder of links to every image, and to the labels of a few."""
    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True)
    for item in items:
        os.symlink(item.image.resolve(), folder / "images" / item.image.name)
    for item in labeled:
        if item.label is not None:
            os.symlink(item.label.resolve(), folder / "labels" / item.label.name)
    return folder
