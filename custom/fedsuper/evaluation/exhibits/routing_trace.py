"""Routing looked at while it is tuned: Dice against time (IOP-FL, Fig. 7b), the loss it lowers and how far apart the
inside models are that it mixes (Fig. 9), and the mean routing matrix.

Labels are read here to draw the curve; what is kept at every epoch is still chosen by the unsupervised loss alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.evaluation.cases import ALL, CaseStore
from fedsuper.evaluation.metrics.case_scores import case_dice
from fedsuper.inference.modes.route import create_tuner
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.routing.tuner import Epoch
from fedsuper.train.device import Compute


@dataclass(frozen=True)
class CurvePoint:
    """After so many epochs and seconds an image: mean and spread over images of the Dice of what would be kept.

    `loss` is that of what would be kept, `tuning_loss` and its spread those of the epoch itself.
    """

    epoch: int
    seconds: float
    dice: float
    spread: float
    loss: float
    tuning_loss: float
    tuning_spread: float


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
    scores, seconds, losses, measured, rows = [], [], [], [], []
    for case in cases:
        watched: list[Epoch] = []
        tuned = tuner.tune([case.images], watch=watched)
        kept = [min((epoch for epoch in watched[: index + 1] if epoch.sound), key=lambda epoch: epoch.loss)
                for index in range(len(watched))]
        dice = {id(epoch): float(case_dice(predictor, case, epoch.logits.sigmoid()).mean()) for epoch in kept}
        scores.append([dice[id(epoch)] for epoch in kept])
        seconds.append(tuned.seconds)
        losses.append([epoch.loss for epoch in kept])
        measured.append([epoch.loss for epoch in watched])
        rows.append(torch.stack(list(tuned.best.coefficients.values())))
    by_image, of_epoch = (torch.tensor(values, dtype=torch.float64) for values in (scores, measured))
    columns = zip(
        torch.tensor(seconds).mean(0).tolist(), by_image.mean(0).tolist(),
        by_image.std(0, correction=0).tolist(), torch.tensor(losses).mean(0).tolist(),
        of_epoch.mean(0).tolist(), of_epoch.std(0, correction=0).tolist(), strict=True,
    )
    matrix = torch.stack(rows).mean(0).tolist()
    return RoutingTrace(
        [CurvePoint(epoch, *values) for epoch, values in enumerate(columns)],
        list(predictor.experts),
        dict(zip(tuned.best.coefficients, matrix, strict=True)),
    )


def weight_variation(super_model: SuperModel) -> dict[str, float]:
    """Site -> mean over layers l of ||w_k^l - w_g^l||, how far its model lies from the global one (IOP-FL, Fig. 9)."""
    shared = super_model.global_model
    if shared is None:
        return {}
    learned = [name for name, _ in Predictor(super_model).build(GLOBAL).named_parameters()]
    return {
        site: float(torch.stack([(state[name].double() - shared[name].double()).norm() for name in learned]).mean())
        for site, state in super_model.personal.items()
    }
