"""Super models with every kind of selector, pictures that its sites would know, and exports put to work by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from exported import Run
from PIL import Image
from super_models import random_super_model

from fedsuper.core.calibration import choose_candidate, evaluate_candidates
from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.images.io import read_image
from fedsuper.data.preprocess import Preprocess, prepare_image, regions_to_labels, restore_probabilities
from fedsuper.inference.artifact import save_super_model
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.closed_form import with_sums
from fedsuper.train.device import Compute

SITES = ("A", "B")
UTILITY = {
    "experts": ["global", "A", "B"], "dice": {"A": [0.5, 0.9, 0.1], "B": [0.5, 0.1, 0.9]},
    "images": {"A": 20, "B": 20}, "temperature": 1.0,
}
TINTS = {"A": (90, 60, 20), "B": (20, 60, 90), "unlike": (0, 0, 0)}


def saved(model: SuperModel, folder: Path) -> Path:
    save_super_model(model, folder)
    return folder


def predictor_of(model: SuperModel) -> Predictor:
    return Predictor(model, Compute(torch.device("cpu")))


def picture(kind: str, number: int, size: tuple[int, int] = (40, 36)) -> np.ndarray:
    """A site's tint with smooth structure and some noise; `unlike` is a checkerboard that no site has."""
    random = np.random.default_rng([number, *kind.encode()])
    rows, columns = np.mgrid[: size[0], : size[1]]
    if kind == "unlike":
        return np.repeat(((rows // 2 + columns // 2 + number) % 2 * 255).astype(np.uint8)[..., None], 3, axis=2)
    blob = 80 * np.exp(-((rows - random.integers(10, 30)) ** 2 + (columns - random.integers(10, 26)) ** 2) / 60)
    values = np.array(TINTS[kind]) + blob[..., None] + random.normal(0, 12, (*size, 3))
    return values.clip(0, 255).astype(np.uint8)


def write_pictures(folder: Path, count: int = 20) -> list[Path]:
    """`count` PNG files, of each kind in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number:02d}.png" for number in range(count)]
    for number, path in enumerate(paths):
        Image.fromarray(picture(list(TINTS)[number % 3], number)).save(path)
    return paths


def super_model_with(selector: str, folder: Path) -> SuperModel:
    """`trained`, or closed form with the gate `threshold` or `expected-dice`; `folder` is for its sites' pictures."""
    if selector == "trained":
        return random_super_model(SITES)
    model = random_super_model(SITES, selector={"kind": "statistics", "gate": selector})
    extractor, predictor = predictor_of(model).feature_net(), predictor_of(model)
    features = {}
    folder.mkdir(parents=True, exist_ok=True)
    for site in SITES:
        prepared = []
        for number in range(100, 140):
            Image.fromarray(picture(site, number)).save(folder / "one.png")
            prepared.append(predictor.prepare(read_image(folder / "one.png")))
        with torch.no_grad():
            features[site] = extractor(torch.cat(prepared)).double()
    sums = [FeatureSums.of(rows[:30]) for rows in features.values()]
    counts = {site: evaluate_candidates(sums, rows[30:], label, range(10))
              for label, (site, rows) in enumerate(features.items())}
    found = with_sums(model, sums, choose_candidate(counts))
    found.manifest["utility"] = UTILITY
    return found


def description(out: Path) -> dict[str, Any]:
    return json.loads((out / "export.json").read_text(encoding="utf-8"))


def mask_by_hand(told: dict[str, Any], experts: dict[str, Run], selector: Run, path: Path) -> tuple[str, np.ndarray]:
    """The model and the mask of one picture by export.json and the programs alone, as another tool would do it."""
    image = read_image(path)
    x = prepare_image(image, Preprocess.model_validate(told["preprocess"]), told["channels"])
    _, place = selector(x)
    name = list(told["models"])[int(place)]
    return name, regions_to_labels(restore_probabilities(experts[name](x).sigmoid(), image.size), told["regions"])[0]
