"""`agree`: the mean of all models, each weighted by how well it agrees with the others on the image at hand.

    d_kj = 2 sum p_k p_j / sum (p_k^2 + p_j^2)      soft Dice of two models' probabilities over the image's pixels
    a_k  = mean of d_kj over j != k and regions     w = softmax(sharpness * a)      p = sum_k w_k p_k

A model that is lost on the image agrees with nobody and fades. `sharpness: 0` is the plain mean of probabilities.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field

from fedsuper.inference.modes.base import Mode, Outcome
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.schema import Strict


class AgreeKnobs(Strict):
    """How much a better agreement counts."""

    sharpness: float = Field(10.0, ge=0)


class Agree(Mode):
    """Needs neither a selector nor labels; images are weighed one by one, a volume as a whole."""

    name: ClassVar[str] = "agree"
    Knobs: ClassVar[type[Strict]] = AgreeKnobs
    knobs: AgreeKnobs

    def predict(self, batch: SliceBatch) -> Outcome:
        experts = list(self.predictor.experts)
        said = torch.stack([batch.logits(name).sigmoid() for name in experts])  # [K, N, R, S, S]
        cases = said.split(batch.sizes, dim=1)
        weights = [weights_of(case, self.knobs.sharpness) for case in cases]
        mixed = [torch.einsum("k,knrhw->nrhw", w, case) for w, case in zip(weights, cases, strict=True)]
        shares = [dict(zip(experts, w.tolist(), strict=True)) for w in weights]
        return Outcome(
            torch.cat(mixed), [self.name] * len(batch), self.told_sites(batch), weights=batch.for_slices(shares)
        )


def weights_of(said: torch.Tensor, sharpness: float) -> torch.Tensor:
    """w of every model, from what all of them said of one image, `[K, Z, R, S, S]`."""
    count = len(said)
    if count == 1:
        return torch.ones(1)
    maps = said.transpose(1, 2).flatten(2).double()  # [K, R, pixels of the image]
    both = torch.einsum("krp,jrp->kjr", maps, maps)
    own = both.diagonal(dim1=0, dim2=1).T  # [K, R]: sum of p_k^2
    dice = (2 * both + 1e-6) / (own[:, None] + own[None] + 1e-6)
    agreement = (dice.mean(dim=2).sum(dim=1) - 1) / (count - 1)
    return (sharpness * agreement).softmax(dim=0).float()
