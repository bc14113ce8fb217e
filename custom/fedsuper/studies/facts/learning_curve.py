"""Dice against the number of images a net was trained on: how hard a hospital's images are to learn.

Every point has the same number of steps, so that a point differs from the next in what was seen, not in how long. The
images scored are the same along a curve, and no patient of theirs is trained on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from fedsuper.config import Study
from fedsuper.data.prepared.samples import Samples
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.models.build import build_segmentation, first_weights
from fedsuper.train.device import Compute
from fedsuper.train.learner import Learner, make_optimizer
from fedsuper.train.loop import BatchSource, region_dice, run_epochs
from fedsuper.train.losses import LOSSES
from fedsuper.train.seeding import generator

COUNTS = (4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Curve:
    """Mean Dice after each number of images; one row of `draws` for each choice of images."""

    counts: list[int]
    draws: list[list[float]]

    @property
    def means(self) -> list[float]:
        """The curve, averaged over choices of images."""
        return [math.fsum(column) / len(column) for column in zip(*self.draws, strict=True)]


def learning_curve(samples: Samples, study: Study, steps: int, held: int, draws: int) -> Curve:
    """Train on 4, 8, 16, ... of the samples, score on `held` others; as far as the images last."""
    counts = [count for count in COUNTS if count + held <= len(samples)]
    rows = []
    for draw in range(draws):
        order = shuffled(samples, study.seed, draw)
        test, pool = take(samples, order[:held]), _of_other_patients(samples, order, held, study.seed, draw)
        nets = [fit(take(samples, pool[:count]), study, steps, draw) for count in counts]
        rows.append([mean_dice(net, test, study) for net in nets])
    return Curve(counts, rows)


def mean_dice(net: nn.Module, samples: Samples, study: Study) -> float:
    """Mean over images, then regions, of a net's Dice."""
    return float(region_dice(net, samples, Compute.from_config(study.compute)).mean())


def mean_mask_dice(seen: Samples, samples: Samples) -> float:
    """What always drawing the mean mask of `seen` scores: what a net must beat to have learned more than a place."""
    drawn = seen.masks.float().mean(dim=0, keepdim=True) > 0.5
    shown = samples.masks.bool()
    both = (shown & drawn).flatten(2).sum(dim=2)
    dice = 2 * both / (shown.flatten(2).sum(dim=2) + drawn.flatten(2).sum(dim=2)).clamp(min=1)
    return float(dice.mean())


def fit(samples: Samples, study: Study, steps: int, draw: int = 0) -> nn.Module:
    """A net trained from its first weights on `samples` for about `steps` steps, as the study's sites train."""
    compute = Compute.from_config(study.compute)

    def build() -> nn.Module:
        return build_segmentation(study.model, samples.images.shape[1], samples.masks.shape[1])

    net = build()
    net.load_state_dict(first_weights(build, study.seed + draw))
    net = compute.place_net(net)
    optimizer = make_optimizer(list(net.parameters()), study.optimizer)
    learner = Learner(PERSONAL, net, optimizer, LOSSES[study.loss], compute)
    source = BatchSource(samples, study.batch_size, study.augment, compute, (study.seed, "learning-curve", draw))
    run_epochs([learner], source, math.ceil(steps / math.ceil(len(samples) / study.batch_size)))
    return net


def take(samples: Samples, rows: Sequence[int]) -> Samples:
    """These rows of the samples."""
    index = torch.tensor(list(rows))
    names, cases = [samples.names[row] for row in rows], [samples.cases[row] for row in rows]
    return Samples(samples.images[index], samples.masks[index], names, cases)


def shuffled(samples: Samples, *names: object) -> list[int]:
    """All rows, patients in random order, the images of a patient together."""
    patients = list(dict.fromkeys(samples.cases))
    order = [patients[place] for place in torch.randperm(len(patients), generator=generator(*names)).tolist()]
    place = {patient: number for number, patient in enumerate(order)}
    return sorted(range(len(samples)), key=lambda row: (place[samples.cases[row]], row))


def _of_other_patients(samples: Samples, order: list[int], held: int, *names: object) -> list[int]:
    """What may be trained on, one image of every patient before the second of any: few images, many patients.

    Which of a patient's images comes first is left to chance: in the files' order it would be the lowest slice of
    every patient, and a curve would tell how far apex slices alone teach a gland.
    """
    scored = {samples.cases[row] for row in order[:held]}
    chance = torch.rand(len(samples), generator=generator(*names, "which-image")).tolist()
    patients = {case: place for place, case in enumerate(dict.fromkeys(samples.cases[row] for row in order))}
    turns: dict[str, int] = {}
    ranked: list[tuple[int, int, int]] = []
    for row in sorted(order[held:], key=lambda row: chance[row]):
        case = samples.cases[row]
        if case not in scored:
            turns[case] = turns.get(case, 0) + 1
            ranked.append((turns[case], patients[case], row))
    return [row for _, _, row in sorted(ranked)]
