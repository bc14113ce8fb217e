"""A super model's answer on one case against its label: Dice, and in detail boundaries and measurements."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from fedsuper.core.metrics import dice_scores
from fedsuper.evaluation.cases import LabeledCase
from fedsuper.evaluation.mask_dice import label_regions
from fedsuper.evaluation.metrics.boundaries import Boundary, boundary_scores, unit_of
from fedsuper.evaluation.metrics.measurements import Measured, measure
from fedsuper.inference.predictor import Predictor


@dataclass(frozen=True)
class Detail:
    """Beside Dice: boundary distances per region (in `unit`) and clinical measurements.

    `overlap` has |A and B| and |A| + |B| per region: what images of one patient are scored together by.
    """

    boundaries: dict[str, Boundary]
    measured: dict[str, Measured]
    unit: str
    overlap: dict[str, tuple[int, int]] = field(default_factory=dict)


def case_dice(predictor: Predictor, case: LabeledCase, probabilities: torch.Tensor) -> torch.Tensor:
    """Dice per region between the label map that would be written and the true one."""
    predicted, _ = predictor.restore(probabilities, case.size)
    regions = predictor.task.regions
    masks = (label_regions(labels, regions)[None] for labels in (predicted, case.label()))
    return dice_scores(*masks)[0]


def case_detail(predictor: Predictor, case: LabeledCase, probabilities: torch.Tensor) -> Detail:
    """Everything else that is told of the same label map."""
    labels, _ = predictor.restore(probabilities, case.size)
    regions = predictor.task.regions
    predicted, true = (
        dict(zip(regions, label_regions(found, regions).numpy(), strict=True)) for found in (labels, case.label())
    )
    boundaries = {region: boundary_scores(predicted[region], true[region], case.spacing) for region in regions}
    overlap = {
        region: (int((predicted[region] & true[region]).sum()), int(predicted[region].sum() + true[region].sum()))
        for region in regions
    }
    return Detail(boundaries, measure(predicted, true, case.spacing), unit_of(case.spacing), overlap)
