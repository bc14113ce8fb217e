"""A map of what the selector sees: its features of every test image, flattened to two dimensions (FedSM, Fig. 3)."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from fedsuper.data.layout import find_sites
from fedsuper.evaluation.cases import CaseStore
from fedsuper.files import atomic_write_text
from fedsuper.inference.artefact import load_super_model
from fedsuper.inference.predictor import Predictor

LEAST_IMAGES = 5


def write_features(out: Path, data_root: Path, super_models: Mapping[str, Path]) -> None:
    """Write `method,site,image,x,y` of every test image to the file `out`, for each super model that has a selector.

    `super_models` maps a method to its super model's folder. There is no file where no method has a selector, or where
    the test images are too few for a map.
    """
    store, rows = CaseStore(data_root), []
    for method, folder in super_models.items():
        super_model = load_super_model(folder)
        if super_model.selector is not None:
            rows += [[method, *row] for row in _places(Predictor(super_model), store)]
    if rows:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([["method", "site", "image", "x", "y"], *rows])
        atomic_write_text(Path(out), text.getvalue())


def _places(predictor: Predictor, store: CaseStore) -> list[list[str]]:
    """Site, image and place on the map; a volume is its mean over slices.

    t-SNE starts from the principal components, with a fixed seed: the same super model and images give the same map.
    """
    from sklearn.manifold import TSNE

    names, features = [], []
    for site in find_sites(store.root):
        for case in store.cases(site, "test", predictor.study, predictor.task, predictor.preprocess):
            with torch.no_grad():
                seen = predictor.selector().features(predictor.compute.place(case.images))  # type: ignore[operator]
            names.append((site, case.name))
            features.append(seen.mean(dim=0).double().cpu().numpy())
    if len(features) < LEAST_IMAGES:
        return []
    values = np.stack(features)
    values = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9)
    places = TSNE(perplexity=min(30.0, (len(values) - 1) / 3), init="pca", random_state=0).fit_transform(values)
    return [[site, image, f"{x:.4f}", f"{y:.4f}"] for (site, image), (x, y) in zip(names, places, strict=True)]
