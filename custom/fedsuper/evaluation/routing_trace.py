"""Routing looked at while it is tuned: Dice against time (IOP-FL, Fig. 7b) and the mean routing matrix.

Labels are read here to draw the curve; what is kept at every epoch is still chosen by the unsupervised loss alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedsuper.core.supermodel import SuperModel
from fedsuper.evaluation.cases import ALL, CaseStore
from fedsuper.evaluation.evaluate import case_dice
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.routing import Epoch
from fedsuper.inference.routing_mode import create_tuner
from fedsuper.train.device import Compute


@dataclass(frozen=True)
class CurvePoint:
    """After so many epochs and seconds an image: mean and spread over images of the Dice of what would be kept."""

    epoch: int
    seconds: float
    dice: float
    spread: float
    loss: float


@dataclass(frozen=True)
class RoutingTrace:
    """The curve, and per layer, in the order they run, the mean coefficients of `experts` over images."""

    points: list[CurvePoint]
    experts: list[str]
    coefficients: dict[str, list[float]]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "points": [vars(point) for point in self.points],
            "experts": self.experts,
            "coefficients": self.coefficients,
        }


def trace_routing(
    super_model: SuperModel, root: Path, site_folder: str, compute: Compute | None = None
) -> RoutingTrace:
    """Tune every image of a site for itself, from the untuned gates, and score what would be kept after each epoch."""
    predictor = Predictor(super_model, compute)
    every_epoch = predictor.study.routing.model_copy(update={"patience": 0, "seconds_per_image": None})
    tuner = create_tuner(predictor, every_epoch)
    cases = CaseStore(root).cases(site_folder, ALL, predictor.study, predictor.task, predictor.preprocess)
    scores, seconds, losses, rows = [], [], [], []
    for case in cases:
        watched: list[Epoch] = []
        tuned = tuner.tune([case.images], watch=watched)
        kept = [min(watched[: index + 1], key=lambda epoch: epoch.loss) for index in range(len(watched))]
        dice = {id(epoch): float(case_dice(predictor, case, epoch.logits.sigmoid()).mean()) for epoch in kept}
        scores.append([dice[id(epoch)] for epoch in kept])
        seconds.append(tuned.seconds)
        losses.append([epoch.loss for epoch in kept])
        rows.append(torch.stack(list(tuned.best.coefficients.values())))
    by_image = torch.tensor(scores, dtype=torch.float64)
    columns = zip(
        torch.tensor(seconds).mean(0).tolist(), by_image.mean(0).tolist(),
        by_image.std(0, correction=0).tolist(), torch.tensor(losses).mean(0).tolist(), strict=True,
    )
    matrix = torch.stack(rows).mean(0).tolist()
    return RoutingTrace(
        [CurvePoint(epoch, *values) for epoch, values in enumerate(columns)],
        list(predictor.experts),
        dict(zip(tuned.best.coefficients, matrix, strict=True)),
    )
