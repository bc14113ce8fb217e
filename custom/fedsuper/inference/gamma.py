"""A site's part of the curve by which gamma, the selector's threshold, is chosen (`core.validated.gamma_choice`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch

from fedsuper.core.metrics import dice_scores
from fedsuper.core.supermodel import gate
from fedsuper.core.validated.gamma_choice import GRID
from fedsuper.core.validated.selection_choice import THRESHOLD, Selection
from fedsuper.data.prepared.samples import Samples
from fedsuper.inference.modes.base import ModeOptions
from fedsuper.inference.modes.fixed import Global
from fedsuper.inference.modes.select import Select
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch


def batch_of(predictor: Predictor, samples: Samples) -> SliceBatch:
    """A site's prepared images as the predictor sees them: a volume is one image, a patient's images vote together."""
    sizes = volume_sizes(samples.names)
    patients = [samples.cases[row] for row in first_slices(sizes)]
    return SliceBatch(predictor, torch.split(samples.images, sizes), patients=patients)


def gamma_statistics(batch: SliceBatch, samples: Samples, kind: str | None = None) -> dict[str, Any]:
    """The site's part of the curve: for every gamma the summed Dice and the number of images left to the global model.

    A volume is one image, judged as a whole, and a patient's images are gated together, as the predictor does it.
    `kind` names another selector than the one in force.
    """
    predictor, sizes = batch.predictor, batch.sizes
    selection = None if kind is None else Selection(kind, THRESHOLD)
    personal = Select(predictor, ModeOptions(gamma=0.0, selection=selection)).predict(batch)
    scores = {name: image_dice(outcome.probabilities > 0.5, samples, sizes) for name, outcome in
              {"personal": personal, "global": Global(predictor, ModeOptions()).predict(batch)}.items()}
    q = batch.case_means(batch.selector(kind))[first_slices(sizes)][:, -len(predictor.super_model.sites):]
    to_global = [gate(q, gamma) < 0 for gamma in GRID]
    return {
        "gamma": list(GRID),
        "dice_sum": [float(torch.where(there, scores["global"], scores["personal"]).sum()) for there in to_global],
        "to_global": [int(there.sum()) for there in to_global],
        "images": len(sizes),
    }


def volume_sizes(names: list[str]) -> list[int]:
    """How many consecutive samples belong to one image: `knee#0000, knee#0001, eye` is [2, 1]."""
    return [len(list(group)) for _, group in groupby(names, key=lambda name: re.sub(r"#\d{4,}$", "#", name))]


def first_slices(sizes: Sequence[int]) -> list[int]:
    """Where each image begins in a batch of images of `sizes` slices."""
    return [sum(sizes[:index]) for index in range(len(sizes))]


def image_dice(predicted: torch.Tensor, samples: Samples, sizes: list[int]) -> torch.Tensor:
    """The mean Dice over regions of each image of masks `[N, R, S, S]`, a volume's slices taken together."""
    pairs = zip(predicted.split(sizes), samples.masks.bool().split(sizes), strict=True)
    return torch.cat([dice_scores(p.transpose(0, 1)[None], t.transpose(0, 1)[None]) for p, t in pairs]).mean(dim=1)
