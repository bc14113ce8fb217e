"""Which images to label first: those the models disagree about, unlike one another, and unlike what the sites know.

An image's worth is the disagreement of the experts (1 minus the mean Dice between their masks, pair by pair), raised
where it is unfamiliar. Images are taken greedily: each further one counts as much as it is far, in features, from those
taken before, so that five suggestions are not five views of one oddity.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import torch

from fedsuper.core.metrics import dice_scores
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.familiarity import Familiarity
from fedsuper.studies.adaptation.images import SiteImages
from fedsuper.train.loop import predict as forward


@dataclass(frozen=True)
class Suggestion:
    """An unlabeled image and why: `disagreement` of the models, `familiarity` (None where it cannot be told)."""

    name: str
    disagreement: float
    familiarity: float | None


def suggest(predictor: Predictor, site: SiteImages, count: int) -> list[Suggestion]:
    """The `count` unlabeled images most worth labeling, best first."""
    places = [place for place, item in enumerate(site.items) if item.label is None]
    if not places:
        return []
    judge = Familiarity.of(predictor)
    features = torch.stack([
        forward(predictor.feature_net(), site.slices[place], predictor.compute).double().mean(dim=0) for place in places
    ])
    quarrel = torch.tensor([disagreement(predictor, site.slices[place]) for place in places], dtype=torch.float64)
    known = None if judge is None else torch.cat([judge.values(site.slices[p], [len(site.slices[p])]) for p in places])
    worth = quarrel * (1 if known is None else 2 - known) + 1e-6
    order = spread_out(worth, features, count)
    return [
        Suggestion(site.items[places[row]].name, float(quarrel[row]), None if known is None else float(known[row]))
        for row in order
    ]


def disagreement(predictor: Predictor, slices: torch.Tensor) -> float:
    """1 minus the mean Dice between the masks of every two experts; 0 where there is one expert."""
    masks = [predictor.logits(name, slices) > 0 for name in predictor.experts]
    pairs = [float(dice_scores(one, other).mean()) for one, other in combinations(masks, 2)]
    return 1 - sum(pairs) / len(pairs) if pairs else 0.0


def spread_out(worth: torch.Tensor, features: torch.Tensor, count: int) -> list[int]:
    """Rows taken greedily by worth times the distance to the nearest one taken before."""
    scaled = (features - features.mean(dim=0)) / features.std(dim=0, correction=0).clamp(min=1e-9)
    taken = [int(worth.argmax())]
    while len(taken) < min(count, len(worth)):
        nearest = torch.cdist(scaled, scaled[taken]).amin(dim=1)
        gain = worth * nearest
        gain[taken] = -1
        taken.append(int(gain.argmax()))
    return taken
