"""FedProx (Li et al. 2020): the local loss plus (mu/2) ||w - w_g||^2, with w_g as received, frozen for the round.

FedSM's text writes the square without mu/2; here the factor is mu/2, so mu compares with other FedProx code. The
term is part of the loss and therefore enters Adam's moments. At w = w_g it has no gradient: a round's first step is
FedAvg's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from pydantic import Field
from torch import nn

from fedsuper.config import Strict
from fedsuper.methods.fedavg import FedAvg
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.train.learner import Learner


def proximal(anchor: Sequence[torch.Tensor], strength: float) -> Callable[[nn.Module], torch.Tensor]:
    """The penalty (strength/2) ||w - anchor||^2 over a net's parameters."""

    def penalty(net: nn.Module) -> torch.Tensor:
        squares = [(weight - fixed).square().sum() for weight, fixed in zip(net.parameters(), anchor, strict=True)]
        return strength / 2 * torch.stack(squares).sum()

    return penalty


class FedProxKnobs(Strict):
    """`mu` 0 is FedAvg; larger values hold the sites closer to the global model."""

    mu: float = Field(0.01, ge=0)


class FedProx(FedAvg[FedProxKnobs]):
    """FedAvg whose sites are tied to the global model by a spring. Sites keep nothing that attendance could upset."""

    name = "fedprox"
    paper = "Li et al. 2020; FedSM section 4"
    Knobs = FedProxKnobs

    def learners(self, site: SiteRound) -> list[Learner]:
        (learner,) = super().learners(site)
        if self.knobs.mu > 0:
            anchor = [weight.detach().clone() for weight in learner.net.parameters()]
            learner.penalty = proximal(anchor, self.knobs.mu)
        return [learner]
