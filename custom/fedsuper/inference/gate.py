"""Choosing gamma, the selector's threshold, on the seen sites' validation data (never on test data or outside sites).

Every site tells how its mean Dice would change with gamma; the server picks one gamma for all. Only sums over a site's
images travel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any, Literal

import torch

from fedsuper.core.metrics import dice_scores
from fedsuper.core.supermodel import SuperModel, gate
from fedsuper.data.dataset import Samples
from fedsuper.errors import FedSuperError
from fedsuper.inference.modes import Global, ModeOptions, Outcome, Select
from fedsuper.inference.predictor import Predictor, SliceBatch
from fedsuper.train.device import Compute

# Fine near 1, where the confidence of a trained selector lies.
GRID = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
# Validation Dice that differs by less is a tie: a few pixels of one image.
TIE = 1e-4


def gamma_statistics(super_model: SuperModel, samples: Samples, compute: Compute) -> dict[str, Any]:
    """The site's part of the curve: for every gamma the summed Dice and the number of images left to the global model.

    A volume is one image, judged and gated as a whole, exactly as the predictor does it.
    """
    predictor = Predictor(super_model, compute)
    sizes = volume_sizes(samples.names)
    batch = SliceBatch(predictor, samples.images.split(sizes))
    personal = Select(predictor, ModeOptions(gamma=0.0)).predict(batch)
    scores = {name: _case_dice(outcome, samples, sizes) for name, outcome in
              {"personal": personal, "global": Global(predictor, ModeOptions()).predict(batch)}.items()}
    first_of_case = torch.tensor([sum(sizes[:index]) for index in range(len(sizes))])
    q = batch.case_means(batch.selector())[first_of_case][:, -len(super_model.sites):]
    to_global = [gate(q, gamma) < 0 for gamma in GRID]
    return {
        "gamma": list(GRID),
        "dice_sum": [float(torch.where(there, scores["global"], scores["personal"]).sum()) for there in to_global],
        "to_global": [int(there.sum()) for there in to_global],
        "images": len(sizes),
    }


def choose_gamma(curves: Mapping[str, Mapping[str, Any]], wanted: float | Literal["auto"]) -> dict[str, Any]:
    """One gamma for the federation, with the curve it was read from: means over sites of the sites' mean Dice.

    `auto` takes the best; of gammas whose Dice ties with the best (within 1e-4) the LARGEST. On the seen sites they are
    worth the same, but a larger gamma sends more of the images the selector has never seen the like of to the global
    model, which is what the threshold is for. A number is kept as it is; the curve is still written beside it.
    """
    for site, curve in curves.items():
        if list(curve["gamma"]) != list(GRID) or not curve["images"] > 0:
            raise FedSuperError(f"{site}: its gamma curve is not over this version's grid; "
                                "install the same FedSuper everywhere")
    points = []
    for index, gamma in enumerate(GRID):
        dice = [curve["dice_sum"][index] / curve["images"] for curve in curves.values()]
        share = [curve["to_global"][index] / curve["images"] for curve in curves.values()]
        points.append({"gamma": gamma, "dice": _mean(dice), "global_share": _mean(share)})
    best = max(point["dice"] for point in points)
    tied = [point["gamma"] for point in points if point["dice"] >= best - TIE]
    chosen = max(tied) if wanted == "auto" else wanted
    if not 0 <= chosen <= 1:
        raise FedSuperError(f"gamma must lie in [0, 1] or be auto, got {wanted}")
    return {"gamma": chosen, "gamma_curve": points}


def volume_sizes(names: list[str]) -> list[int]:
    """How many consecutive samples belong to one image: `knee#0000, knee#0001, eye` is [2, 1]."""
    return [len(list(group)) for _, group in groupby(names, key=lambda name: re.sub(r"#\d{4,}$", "#", name))]


def _case_dice(outcome: Outcome, samples: Samples, sizes: list[int]) -> torch.Tensor:
    """The mean Dice over regions of each image, a volume's slices taken together."""
    predicted = (outcome.probabilities > 0.5).split(sizes)
    true = samples.masks.bool().split(sizes)
    pairs = zip(predicted, true, strict=True)
    return torch.cat([dice_scores(p.transpose(0, 1)[None], t.transpose(0, 1)[None]) for p, t in pairs]).mean(dim=1)


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
