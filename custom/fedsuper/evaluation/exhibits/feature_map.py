"""A map of what the selector sees: its features of every test image, flattened to two dimensions (FedSM, Fig. 3)."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fedsuper.core.supermodel import SuperModel
from fedsuper.data.layout import find_sites
from fedsuper.evaluation.cases import CaseStore
from fedsuper.evaluation.evaluate import training_splits
from fedsuper.evaluation.run_files.names import FEATURES
from fedsuper.files import atomic_write_text
from fedsuper.inference.predictor import Predictor

LEAST_IMAGES = 5


def write_features(run: Path, store: CaseStore, super_models: Mapping[str, SuperModel]) -> None:
    """Write `method,site,image,x,y` of every test image to `run/features.csv`, for each super model with a selector.

    Images and splits come from `store`. There is no file where no method has a selector, or where the test images are
    too few for a map.
    """
    rows: list[list[str]] = []
    for method, super_model in super_models.items():
        if super_model.selector is not None:
            rows += [[method, *row] for row in _places(Predictor(super_model), store)]
    if rows:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([["method", "site", "image", "x", "y"], *rows])
        atomic_write_text(Path(run) / FEATURES, text.getvalue())


def _places(predictor: Predictor, store: CaseStore) -> list[list[str]]:
    """Site, image and place on the map; a volume is its mean over slices.

    The map is the first two principal components of the standardized features: linear, without settings, and the same
    for the same super model and images. (t-SNE, as in the paper, shows clusters and gaps that depend on its settings.)
    """
    names, features = [], []
    digests = training_splits(predictor.super_model, store.root)
    for site in find_sites(store.root):
        digest = digests.get(site)
        for case in store.cases(site, "test", predictor.study, predictor.task, predictor.preprocess, digest):
            with torch.no_grad():
                seen = predictor.selector().features(predictor.compute.place(case.images))  # type: ignore[operator]
            names.append((site, case.name))
            features.append(seen.mean(dim=0).double().cpu().numpy())
    if len(features) < LEAST_IMAGES:
        return []
    values = np.stack(features)
    values = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9)
    places = _principal_components(values)
    return [[site, image, f"{x:.4f}", f"{y:.4f}"] for (site, image), (x, y) in zip(names, places, strict=True)]


def _principal_components(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows `[N, F]` (columns of mean 0) on their first two principal axes, `[N, 2]`; the largest entry points up."""
    left, sizes, _ = np.linalg.svd(values, full_matrices=False)
    places = np.zeros((len(values), 2))
    for axis in range(min(2, len(sizes))):
        column = left[:, axis] * sizes[axis]
        places[:, axis] = column * np.sign(column[np.abs(column).argmax()] or 1.0)
    return places
