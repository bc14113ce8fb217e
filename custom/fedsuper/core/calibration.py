"""Shrinkage and temperature of the closed-form selector, read from counts and sums of validation images.

Each site evaluates every candidate on its own validation images and returns, per shrinkage s: how many images it named
right, the summed cross-entropy at every temperature T, and a histogram of the images' distance to their nearest site.
The server takes the (s, T) of least mean cross-entropy (sites weighted alike) and, from the histograms, how usual a
distance is (`validated.usual_distance`). No image's value travels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from fedsuper.core.discriminant import discriminant
from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.validated.usual_distance import EDGES, expected_beyond, farthest, histogram
from fedsuper.errors import FedSuperError

SHRINKAGES = (0.003, 0.01, 0.03, 0.1, 0.3, 0.9)
TEMPERATURES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
WIDTHS = len(TEMPERATURES), len(TEMPERATURES), len(EDGES) + 1


@dataclass(frozen=True)
class CandidateCounts:
    """A site's answer: `right[s][T]`, `cross_entropy[s][T]` and `distances[s][bin]` over its `images`."""

    images: int
    right: list[list[int]]
    cross_entropy: list[list[float]]
    distances: list[list[int]]


@dataclass(frozen=True)
class Choice:
    """What the server chose: the candidate, its mean cross-entropy and accuracy, and how far images may lie.

    `farther` is the share expected beyond each edge of `usual_distance`, `farthest` where the farthest validation image
    lies. Where no site could count there are no such numbers, and no familiarity.
    """

    shrinkage: float
    temperature: float
    cross_entropy: float | None
    accuracy: float | None
    farther: list[float]
    farthest: float | None = None


def evaluate_candidates(
    sums: Sequence[FeatureSums], features: torch.Tensor, label: int, cases: Sequence[int]
) -> CandidateCounts:
    """What every shrinkage and temperature is worth on a site's validation images, all of class `label`.

    `cases` numbers the patient of every row: a patient's slices are one image here, their values averaged.
    """
    groups = torch.as_tensor(cases)
    images = int(groups.max()) + 1
    target = torch.full((images,), label)
    right, entropies, histograms = [], [], []
    for shrinkage in SHRINKAGES:
        model = discriminant(sums, shrinkage)
        logits = model.logits(features)
        voted = [case_mean((logits / t).softmax(dim=1), groups).clamp(min=1e-300).log() for t in TEMPERATURES]
        right.append([int((each.argmax(dim=1) == target).sum()) for each in voted])
        entropies.append([float(F.nll_loss(each, target, reduction="sum")) for each in voted])
        histograms.append(histogram(nearest(model.distances(features), groups)))
    return CandidateCounts(images, right, entropies, histograms)


def choose_candidate(counts: Mapping[str, CandidateCounts]) -> Choice:
    """The (s, T) of least cross-entropy; of equals the larger shrinkage and temperature, which claim less."""
    for site, each in counts.items():
        shapes = [[len(row) for row in table] for table in (each.right, each.cross_entropy, each.distances)]
        if each.images < 1 or shapes != [[width] * len(SHRINKAGES) for width in WIDTHS]:
            raise FedSuperError(f"{site}: its counts are not over this version's candidates; "
                                "install the same FedSuper everywhere")
    if not counts:
        raise FedSuperError("closed-form selector: no site counted on its validation images; see the sites' messages")
    candidates = [(s, t) for s in range(len(SHRINKAGES)) for t in range(len(TEMPERATURES))]
    costs = [_mean([each.cross_entropy[s][t] / each.images for each in counts.values()]) for s, t in candidates]
    cost, (s, t) = min(zip(costs, candidates, strict=True), key=lambda pair: (pair[0], -pair[1][0], -pair[1][1]))
    accuracy = _mean([each.right[s][t] / each.images for each in counts.values()])
    seen = [each.distances[s] for each in counts.values()]
    return Choice(SHRINKAGES[s], TEMPERATURES[t], cost, accuracy, expected_beyond(seen), farthest(seen))


def case_mean(values: torch.Tensor, cases: torch.Tensor) -> torch.Tensor:
    """`[N, ...]` averaged over the rows of each case, `[cases, ...]`."""
    count = torch.bincount(cases).to(values.dtype)
    total = torch.zeros(len(count), *values.shape[1:], dtype=values.dtype).index_add_(0, cases, values)
    return total / count.view(-1, *[1] * (values.dim() - 1))


def nearest(distances: torch.Tensor, cases: torch.Tensor) -> torch.Tensor:
    """d of every case: the mean distance of its slices to each site, then the least of the sites'."""
    return case_mean(distances, cases).amin(dim=1)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
