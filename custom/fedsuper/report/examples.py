"""Example images for the report, chosen by a rule and saved with true and predicted masks.

They are written while the data root is at hand (after the scores of a run), so that the report needs none. The rule
looks at all methods alike and fixes ranks beforehand, so no method's best or worst case is picked for show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedsuper.core.metrics import dice_scores
from fedsuper.core.supermodel import GLOBAL
from fedsuper.data.image_io import Image, read_image, read_label
from fedsuper.data.layout import Item, find_sites
from fedsuper.data.preprocess import WINDOW
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import split_of
from fedsuper.evaluation.evaluate import evaluate, federation_names
from fedsuper.files import atomic_write, atomic_write_json
from fedsuper.inference.artefact import load_super_model, safe_name
from fedsuper.inference.predictor import Predictor
from fedsuper.report.overlays import INDEX
from fedsuper.report.reading import PER_IMAGE, read_images

# Which ranks are shown: the middle first, then a hard one, then an easy one, then what lies between.
QUANTILES = (0.5, 0.1, 0.9, 0.25, 0.75)
LARGEST_SIDE = 288
MARGIN = 0.3


@dataclass(frozen=True)
class Choice:
    """A test image and its place in the ranking of its site."""

    item: Item
    place: str


def write_examples(out: Path, data_root: Path, super_models: Mapping[str, Path], per_site: int = 2) -> None:
    """Save `per_site` test images of every site with every method's masks in `out`.

    `super_models` maps a method to its super model's folder. Scores come from the `per_image.csv` beside `out` where
    there is one, else every test image is scored first.
    """
    out, data_root = Path(out), Path(data_root)
    if not super_models:
        raise FedSuperError("examples: no super model given; name at least one method and its folder")
    if not 1 <= per_site <= len(QUANTILES):
        raise FedSuperError(f"examples: 1 to {len(QUANTILES)} images a site can be chosen, got {per_site}")
    predictors = {method: Predictor(load_super_model(folder)) for method, folder in super_models.items()}
    first = next(iter(predictors.values()))
    scores = _mean_scores(out.parent / PER_IMAGE, data_root, predictors)
    entries: list[dict[str, Any]] = []
    for site in find_sites(data_root):
        items = split_of(data_root / site, first.study, first.task, "test")
        for choice in choose(
            items, {name: value for (where, name), value in scores.items() if where == site}, per_site
        ):
            entries.append(_write_example(out, f"{len(entries):03d}", site, choice, predictors, data_root))
    places = [_place(quantile) for quantile in QUANTILES[:per_site]]
    rule = (
        "At every site the test images are ranked by their Dice, averaged over all methods and regions; shown: "
        f"{' and '.join(places)}. A volume is shown by the slice where its structures are largest."
    )
    atomic_write_json(out / INDEX, {"rule": rule, "regions": list(first.task.regions), "examples": entries})
    named = {name for entry in entries for name in _files(entry)}
    for stale in (path for path in out.glob("*.png") if path.name not in named):  # of an earlier, longer list
        stale.unlink()


def choose(items: list[Item], scores: Mapping[str, float], count: int) -> list[Choice]:
    """The images at fixed quantiles of the site's ranking, no image twice; ties go by name."""
    ranked = sorted((item for item in items if item.name in scores), key=lambda item: (scores[item.name], item.name))
    chosen: dict[str, Choice] = {}
    for quantile in QUANTILES[:count]:
        if ranked:
            item = ranked[round(quantile * (len(ranked) - 1))]
            chosen.setdefault(item.name, Choice(item, _place(quantile)))
    return list(chosen.values())


def crop_window(masks: np.ndarray) -> tuple[int, int, int]:
    """Top, left and side of a square with a margin around everything that any mask `[N, H, W]` marks."""
    height, width = masks.shape[1:]
    rows, columns = np.flatnonzero(masks.any(axis=(0, 2))), np.flatnonzero(masks.any(axis=(0, 1)))
    if not len(rows):
        side = min(height, width)
        return (height - side) // 2, (width - side) // 2, side
    extent = max(rows[-1] - rows[0], columns[-1] - columns[0]) + 1
    side = int(min(max(extent * (1 + 2 * MARGIN), min(height, width) / 4), height, width))
    top = (rows[0] + rows[-1] + 1 - side) // 2
    left = (columns[0] + columns[-1] + 1 - side) // 2
    return int(np.clip(top, 0, height - side)), int(np.clip(left, 0, width - side)), side


def to_picture(pixels: np.ndarray) -> np.ndarray:
    """Intensities `[C, H, W]` as 8-bit `[H, W]` or `[H, W, 3]`: photographs as they are, others windowed."""
    if len(pixels) == 3 and pixels.min() >= 0 and pixels.max() <= 255:
        return pixels.round().astype(np.uint8).transpose(1, 2, 0)
    plane = pixels.mean(axis=0)
    low, high = np.percentile(plane, WINDOW)
    return (np.clip((plane - low) / max(high - low, 1e-6), 0, 1) * 255).round().astype(np.uint8)


def _place(quantile: float) -> str:
    return "median" if quantile == 0.5 else f"{quantile * 100:.0f}th percentile"


def _mean_scores(path: Path, data_root: Path, predictors: Mapping[str, Predictor]) -> dict[tuple[str, str], float]:
    """Site and image -> mean Dice over methods, seeds and regions."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    if path.exists():
        for row in read_images(path):
            found[row.site, row.image].append(row.mean)
    else:
        for predictor in predictors.values():
            for scored in evaluate(predictor.super_model, data_root, compute=predictor.compute):
                found[scored.site, scored.image].append(scored.mean)
    return {key: float(np.mean(values)) for key, values in found.items()}


def _write_example(
    out: Path, number: str, site: str, choice: Choice, predictors: Mapping[str, Predictor], data_root: Path
) -> dict[str, Any]:
    item = choice.item
    image = read_image(item.image)
    task = next(iter(predictors.values())).task
    label = read_label(item.label, image) if item.label else np.zeros(image.stack_shape, dtype=np.int32)
    truth = {region: np.isin(label, values) for region, values in task.regions.items()}
    answers = {}
    for method, predictor in predictors.items():
        own = federation_names(predictor.super_model, data_root).get(site)
        answers[method] = predict_at(predictor, image, own)
    masks = {
        method: {region: np.isin(labels, values) for region, values in task.regions.items()}
        for method, (labels, _) in answers.items()
    }
    index = int(sum(mask.sum(axis=(1, 2)) for mask in truth.values()).argmax())
    drawn = np.stack([mask[index] for group in (truth, *masks.values()) for mask in group.values()])
    top, left, side = crop_window(drawn)
    window = (slice(top, top + side), slice(left, left + side))
    pixels = min(side, LARGEST_SIDE)

    def save(name: str, array: np.ndarray, smooth: bool = False) -> str:
        _save_png(out / name, array[window], pixels, smooth)
        return name

    return {
        "site": site,
        "image": item.name,
        "place": choice.place,
        "size": [pixels, pixels],
        "picture": save(f"{number}-image.png", to_picture(image.array[index]), smooth=True),
        "truth": {region: save(f"{number}-true-{region}.png", mask[index]) for region, mask in truth.items()},
        "methods": {
            method: {
                "masks": {
                    region: save(f"{number}-{safe_name(method)}-{region}.png", mask[index])
                    for region, mask in group.items()
                },
                "dice": {region: _dice(group[region], truth[region]) for region in task.regions},
                "model": answers[method][1],
            }
            for method, group in masks.items()
        },
    }


def predict_at(predictor: Predictor, image: Image, own: str | None) -> tuple[np.ndarray, str]:
    """A label map and the model behind it, in the method's own mode (global, where a site has no model of its own)."""
    mode = predictor.super_model.mode
    if mode == "own" and own not in predictor.super_model.personal:
        mode = GLOBAL if GLOBAL in predictor.experts else "ensemble"
    prediction = predictor.predict(image, mode=mode, site=own)
    return prediction.labels, "+".join(dict.fromkeys(prediction.chosen))


def _files(entry: Mapping[str, Any]) -> list[str]:
    answers = [answer["masks"] for answer in entry["methods"].values()]
    return [entry["picture"], *(name for masks in (entry["truth"], *answers) for name in masks.values())]


def _dice(predicted: np.ndarray, true: np.ndarray) -> float:
    """Over all slices, as the table's scores are."""
    return float(dice_scores(torch.from_numpy(predicted)[None, None], torch.from_numpy(true)[None, None]))


def _save_png(path: Path, array: np.ndarray, side: int, smooth: bool) -> None:
    from PIL import Image as Picture

    picture = Picture.fromarray(array if smooth else array.astype(np.uint8) * 255)
    if picture.width != side:
        how = Picture.Resampling.LANCZOS if smooth else Picture.Resampling.NEAREST
        picture = picture.resize((side, side), how)
    atomic_write(path, lambda temporary: picture.save(temporary, optimize=True))
