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
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.membership import join
from fedsuper.methods.protocol.nets import first_segmentation
from fedsuper.studies.adaptation.adapt import adapt
from fedsuper.studies.adaptation.fine_tune import CHECK_STEPS, USUAL_STEPS, FineTuning
from fedsuper.studies.adaptation.images import labeled_samples, read_site

COUNTS = (3, 5)
SCRATCH_STEPS = 200


def score_with_labels(
    super_model: SuperModel,
    root: Path,
    site: str,
    counts: Sequence[int] = COUNTS,
    seed: int = 0,
    steps: int = USUAL_STEPS,
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


def score_from_scratch(
    super_model: SuperModel, root: Path, site: str, count: int = max(COUNTS), seed: int = 0, steps: int = SCRATCH_STEPS
) -> OutsideRow:
    """A row for a model of the same net that knows the first `count` labels and nothing of the federation.

    The study's own learning rate and more steps: it starts from nothing.
    """
    items = list_items(root / site, require_labels=True)
    with tempfile.TemporaryDirectory() as folder:
        predictor = Predictor(super_model)
        few = read_site(predictor, _with_labels_of(items[:count], items, Path(folder) / site))
        samples = labeled_samples(predictor, few)
    tuning = FineTuning(predictor, samples, steps // CHECK_STEPS, seed, pace=1.0)
    first = first_segmentation(predictor.study, predictor.task)
    state = tuning.train(first, samples, tuning.checks, "scratch")
    (row,) = score_outside(join(super_model, site, None, state), root, site, [f"{SITE_PREFIX}{site}"])
    return replace(row, mode=f"{count} labels, from scratch")


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
