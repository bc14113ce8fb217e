"""A site's row of the matrix by which the expected-Dice gate decides (`core.expected_dice`): sums over images only."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from fedsuper.core.calibration import TEMPERATURES
from fedsuper.core.expected_dice import tempered
from fedsuper.data.prepared.samples import Samples
from fedsuper.inference.gamma import first_slices, image_dice
from fedsuper.inference.slice_batch import SliceBatch


def expert_dice(batch: SliceBatch, samples: Samples) -> dict[str, torch.Tensor]:
    """Dice of every expert on every image, mean over regions."""
    return {name: image_dice(batch.logits(name) > 0, samples, batch.sizes) for name in batch.predictor.experts}


def utility_row(batch: SliceBatch, samples: Samples, label: int, kind: str | None = None) -> dict[str, Any]:
    """Summed Dice of every expert and the selector's summed cross-entropy at every temperature.

    Images are counted as the predictor sees them: a volume is one. `kind` names another selector than the one in force.
    """
    sizes, dice = batch.sizes, expert_dice(batch, samples)
    q = batch.case_means(batch.selector(kind))[first_slices(sizes)]
    target = torch.full((len(sizes),), label)
    return {
        "dice_sum": {name: float(scores.sum()) for name, scores in dice.items()},
        "cross_entropy": [float(F.nll_loss(tempered(q, t).log(), target, reduction="sum")) for t in TEMPERATURES],
        "images": len(sizes),
    }
