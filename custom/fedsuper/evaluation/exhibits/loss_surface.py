"""The loss around trained models along random directions (FedSM, Fig. 4): flat where a model generalizes.

For a site's test images and the model that each method would use there, weights w are moved to w + a d, d a random
direction of length 1 over all learned weights, and the Dice loss is averaged over directions. All methods share the
site, the distances a (up to a tenth of the models' mean length) and the directions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from fedsuper.core.mode import GLOBAL, OWN, SELECT
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.layout import find_sites
from fedsuper.evaluation.cases import CaseStore, LabeledCase
from fedsuper.evaluation.evaluate import federation_names, training_splits
from fedsuper.evaluation.mask_dice import label_regions
from fedsuper.evaluation.run_files.names import LOSS_SURFACE
from fedsuper.files import atomic_write_json
from fedsuper.inference.predictor import Predictor
from fedsuper.train.loop import predict as forward
from fedsuper.train.losses import dice_loss

STEPS, DIRECTIONS, MOST_IMAGES = 11, 3, 24
REACH = 0.1  # of the models' mean length


def write_loss_surface(run: Path, store: CaseStore, super_models: Mapping[str, SuperModel]) -> None:
    """Write `run/loss_surface.json`: the site, the distances, and every method's mean loss at each."""
    predictors = {method: Predictor(super_model) for method, super_model in super_models.items()}
    first = next(iter(predictors.values()))
    digests = training_splits(first.super_model, store.root)
    by_site = {
        site: store.cases(site, "test", first.study, first.task, first.preprocess, digests.get(site))
        for site in find_sites(store.root)
    }
    site = max(by_site, key=lambda name: len(by_site[name]))
    cases = by_site[site][:MOST_IMAGES]
    nets = {method: one.build(model_at(one, store.root, site)) for method, one in predictors.items()}
    lengths = [_length([weights.detach() for weights in net.parameters()]) for net in nets.values()]
    reach = REACH * sum(lengths) / len(lengths)
    distances = torch.linspace(-reach, reach, STEPS).tolist()
    losses = {method: surface(predictors[method], net, cases, distances) for method, net in nets.items()}
    atomic_write_json(Path(run) / LOSS_SURFACE, {"site": site, "distances": distances, "losses": losses})


def model_at(predictor: Predictor, root: Path, site: str) -> str:
    """The model a method is known for at a site: its personalized one where it predicts with those."""
    own = federation_names(predictor.super_model, root).get(site)
    personal = predictor.super_model.mode in (OWN, SELECT) and own in predictor.super_model.personal
    return own if personal and own else GLOBAL if GLOBAL in predictor.experts else next(iter(predictor.experts))


def surface(predictor: Predictor, net: nn.Module, cases: list[LabeledCase], distances: list[float]) -> list[float]:
    """Mean loss at each distance over the same random directions; the net is left as it came."""
    start = [weights.detach().clone() for weights in net.parameters()]
    totals = [0.0] * len(distances)
    for seed in range(DIRECTIONS):
        generator = torch.Generator().manual_seed(seed)
        drawn = [torch.randn(weights.shape, generator=generator) for weights in start]
        length = _length(drawn)
        unit = [part.to(weights) / length for part, weights in zip(drawn, start, strict=True)]
        for place, distance in enumerate(distances):
            _move(net, start, [distance * part for part in unit])
            totals[place] += mean_loss(predictor, net, cases)
    _move(net, start, [torch.zeros_like(weights) for weights in start])
    return [total / DIRECTIONS for total in totals]


def mean_loss(predictor: Predictor, net: nn.Module, cases: list[LabeledCase]) -> float:
    """Dice loss over images, in their own grid."""
    losses = []
    for case in cases:
        _, native = predictor.restore(forward(net, case.images, predictor.compute).sigmoid(), case.size)
        masks = label_regions(case.label(), predictor.task.regions).transpose(0, 1).float()
        losses.append(float(dice_loss(torch.logit(native.float(), eps=1e-6), masks)))
    return sum(losses) / len(losses)


def _length(parts: list[torch.Tensor]) -> float:
    return math.sqrt(math.fsum(float((part.double() ** 2).sum()) for part in parts))


@torch.no_grad()
def _move(net: nn.Module, start: list[torch.Tensor], shift: list[torch.Tensor]) -> None:
    for weights, origin, step in zip(net.parameters(), start, shift, strict=True):
        weights.copy_(origin + step)
