"""Example images for the report, chosen by a rule and saved with true and predicted masks.

They are written while the data root is at hand (after the scores of a run), so that the report needs none. The rule
looks at all methods alike and fixes ranks beforehand, so no method's best or worst case is picked for show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedsuper.core.metrics import dice_scores
from fedsuper.core.mode import GLOBAL, OWN
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.images.io import Image, read_image, read_label
from fedsuper.data.layout import Item, find_sites
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import CaseStore
from fedsuper.evaluation.evaluate import evaluate, federation_names, training_splits
from fedsuper.evaluation.exhibits.small_pictures import LARGEST_SIDE, crop_window, save_png, save_whole, to_picture
from fedsuper.evaluation.run_files.names import EXAMPLES, EXAMPLES_INDEX, PER_IMAGE
from fedsuper.evaluation.run_files.tables import read_images
from fedsuper.files import atomic_write_json
from fedsuper.inference.artifact import safe_name
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.segment import segment

# Which ranks are shown: the middle first, then the worst, an easy one, a hard one, and what lies between.
QUANTILES = (0.5, 0.0, 0.9, 0.1, 0.75)


@dataclass(frozen=True)
class Shown:
    """A row of the table at work: its models, and the mode it predicts in (None: the method's own)."""

    predictor: Predictor
    mode: str | None = None


@dataclass(frozen=True)
class Choice:
    """A test image and its place in the ranking of its site."""

    item: Item
    place: str


def write_examples(run: Path, store: CaseStore, super_models: Mapping[str, SuperModel], per_site: int = 2) -> None:
    """Save `per_site` test images of every site with every method's masks in `run/examples`.

    Images and splits come from `store`. Scores come from the run's `per_image.csv` where there is one, else every test
    image is scored first.
    """
    if not super_models:
        raise FedSuperError("examples: no super model given; name at least one method")
    rows = {method: Shown(Predictor(super_model)) for method, super_model in super_models.items()}
    first = next(iter(rows.values())).predictor
    digests = training_splits(first.super_model, store.root)
    scores = _mean_scores(Path(run), store, [row.predictor for row in rows.values()])
    writer = ExampleWriter(Path(run) / EXAMPLES, store.root, per_site)
    for site in find_sites(store.root):
        items = store.items(site, "test", first.study, first.task, digests.get(site))
        writer.add(site, items, {name: value for (where, name), value in scores.items() if where == site}, rows)
    writer.close()


class ExampleWriter:
    """Writes examples site by site, each with the rows that are at hand for it, and their index at the end."""

    def __init__(self, out: Path, data_root: Path, per_site: int = 2) -> None:
        if not 1 <= per_site <= len(QUANTILES):
            raise FedSuperError(f"examples: 1 to {len(QUANTILES)} images a site can be chosen, got {per_site}")
        self.out = out
        self.data_root = data_root
        self.per_site = per_site
        self.regions: list[str] = []
        self.entries: list[dict[str, Any]] = []

    def add(self, site: str, items: list[Item], scores: Mapping[str, float], rows: Mapping[str, Shown]) -> None:
        """The images of a site at the fixed ranks of `scores` (by name), with every row's masks."""
        self.regions = list(next(iter(rows.values())).predictor.task.regions)
        for choice in choose(items, scores, self.per_site):
            number = f"{len(self.entries):03d}"
            self.entries.append(_write_example(self.out, number, site, choice, rows, self.data_root))

    def close(self) -> None:
        """Write the index; pictures of an earlier, longer list go."""
        places = [_place(quantile) for quantile in QUANTILES[: self.per_site]]
        rule = (
            "At every site the images are ranked by their Dice, averaged over all methods and regions; shown: "
            f"{' and '.join(places)}. A volume is shown by the slice where its structures are largest."
        )
        atomic_write_json(
            self.out / EXAMPLES_INDEX, {"rule": rule, "regions": self.regions, "examples": self.entries}
        )
        named = {name for entry in self.entries for name in _files(entry)}
        for stale in (path for path in self.out.glob("*.[pj][np]g") if path.name not in named):
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


def _place(quantile: float) -> str:
    return {0.5: "median", 0.0: "worst"}.get(quantile, f"{quantile * 100:.0f}th percentile")


def _mean_scores(run: Path, store: CaseStore, predictors: Sequence[Predictor]) -> dict[tuple[str, str], float]:
    """Site and image -> mean Dice over methods, seeds and regions."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    if (run / PER_IMAGE).exists():
        for row in read_images(run):
            found[row.site, row.image].append(row.mean)
    else:
        for predictor in predictors:
            for scored in evaluate(predictor.super_model, store.root, compute=predictor.compute, store=store):
                found[scored.site, scored.image].append(scored.mean)
    return {key: float(np.mean(values)) for key, values in found.items()}


def _write_example(
    out: Path, number: str, site: str, choice: Choice, rows: Mapping[str, Shown], data_root: Path
) -> dict[str, Any]:
    item = choice.item
    image = read_image(item.image)
    task = next(iter(rows.values())).predictor.task
    label = read_label(item.label, image) if item.label else np.zeros(image.stack_shape, dtype=np.int32)
    truth = {region: np.isin(label, values) for region, values in task.regions.items()}
    answers = {}
    for method, row in rows.items():
        own = federation_names(row.predictor.super_model, data_root).get(site)
        answers[method] = predict_at(row.predictor, image, own, row.mode)
    masks = {
        method: {region: np.isin(labels, values) for region, values in task.regions.items()}
        for method, (labels, _) in answers.items()
    }
    index = int(sum(mask.sum(axis=(1, 2)) for mask in truth.values()).argmax())
    drawn = np.stack([mask[index] for group in (truth, *masks.values()) for mask in group.values()])
    top, left, side = crop_window(drawn)
    window = (slice(top, top + side), slice(left, left + side))
    pixels = min(side, LARGEST_SIDE)

    picture, whole = to_picture(image.array[index]), f"{number}-whole.jpg"
    save_whole(out / whole, picture)

    def save(name: str, array: np.ndarray, smooth: bool = False) -> str:
        save_png(out / name, array[window], pixels, smooth)
        return name

    return {
        "site": site,
        "image": item.name,
        "place": choice.place,
        "size": [pixels, pixels],
        "picture": save(f"{number}-image.png", picture, smooth=True),
        "whole": whole,
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


def predict_at(
    predictor: Predictor, image: Image, own: str | None, mode: str | None = None
) -> tuple[np.ndarray, str]:
    """A label map and the model behind it, in the method's own mode (global, where a site has no model of its own)."""
    mode = mode or predictor.super_model.mode
    if mode == OWN and own not in predictor.super_model.personal:
        mode = GLOBAL if GLOBAL in predictor.experts else "ensemble"
    prediction = segment(predictor, image, mode, site=own)
    return prediction.labels, "+".join(dict.fromkeys(prediction.chosen))


def _files(entry: Mapping[str, Any]) -> list[str]:
    answers = [answer["masks"] for answer in entry["methods"].values()]
    masks = (entry["truth"], *answers)
    return [entry["picture"], entry["whole"], *(name for by_region in masks for name in by_region.values())]


def _dice(predicted: np.ndarray, true: np.ndarray) -> float:
    """Over all slices, as the table's scores are."""
    return float(dice_scores(torch.from_numpy(predicted)[None, None], torch.from_numpy(true)[None, None]))
