"""A map of what the selector sees: its features of every test image, flattened to two dimensions (FedSM, Fig. 3)."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import torch

from fedsuper.data.layout import find_sites
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import CaseStore
from fedsuper.files import atomic_write_text
from fedsuper.inference.artefact import load_super_model
from fedsuper.inference.predictor import Predictor
from fedsuper.models import build_selector

LEAST_IMAGES = 5


def write_selector_features(super_model_folder: Path, data_root: Path, out: Path) -> None:
    """Write `site,image,x,y` of every test image under `data_root` to the file `out`; a volume is its mean over slices.

    t-SNE starts from the principal components, with a fixed seed: the same super model and images give the same map.
    """
    from sklearn.manifold import TSNE

    super_model = load_super_model(super_model_folder)
    predictor = Predictor(super_model)
    if super_model.selector is None:
        raise FedSuperError(f"{super_model_folder}: has no selector, so nothing to map; use a FedSM super model")
    net = build_selector(predictor.study.selector, predictor.channels, len(predictor.classes))
    net.load_state_dict(super_model.selector)
    net = predictor.compute.place_net(net).eval()
    store, names, rows = CaseStore(data_root), [], []
    for site in find_sites(data_root):
        for case in store.cases(site, "test", predictor.study, predictor.task, predictor.preprocess):
            with torch.no_grad():
                features = net.features(predictor.compute.place(case.images))  # type: ignore[operator]
            names.append((site, case.name))
            rows.append(features.mean(dim=0).double().cpu().numpy())
    if len(rows) < LEAST_IMAGES:
        raise FedSuperError(f"{data_root}: has {len(rows)} test images, a map needs at least {LEAST_IMAGES}")
    values = np.stack(rows)
    values = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9)
    places = TSNE(perplexity=min(30.0, (len(values) - 1) / 3), init="pca", random_state=0).fit_transform(values)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["site", "image", "x", "y"])
    writer.writerows([site, image, f"{x:.4f}", f"{y:.4f}"] for (site, image), (x, y) in zip(names, places, strict=True))
    atomic_write_text(Path(out), text.getvalue())
