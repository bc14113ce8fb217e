"""pFedMe (Dinh et al. 2020; "Per-FedMe" in FedSM): personalized models on a leash, through Moreau envelopes.

    theta_k ~ argmin_theta f_k(theta) + (lambda/2) ||theta - w_k||^2      `inner_steps` optimizer steps on ONE batch
    w_k <- w_k - eta lambda (w_k - theta_k)                               after each batch
    w_g <- (1 - b) w_g + b sum_k p_k w_k                                  at the server

The inner steps are the study's optimizer (the public code: SGD at .09 with a weight decay of its own). theta_k goes
on from batch to batch and starts each round at w_g; it is what is deployed. w_k makes no forward pass: it carries
theta_k's norm statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field, model_validator

from fedsuper.config import Strict
from fedsuper.core.state import Models, combine
from fedsuper.methods.fedprox import proximal
from fedsuper.methods.parts.personalized import Personalized
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.methods.protocol.server import Server, Update
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.train.learner import Batch, Learner


class MoreauLearner(Learner):
    """The net is theta; `anchor` is w, which follows it at a distance."""

    def __init__(self, *args: Any, leash: float, inner_steps: int, eta: float) -> None:
        super().__init__(*args)
        self.anchor = [weight.detach().clone() for weight in self.net.parameters()]
        self.penalty = proximal(self.anchor, leash)
        self.inner_steps = inner_steps
        self.pull = eta * leash

    def step(self, batch: Batch) -> torch.Tensor:
        values = [super(MoreauLearner, self).step(batch) for _ in range(self.inner_steps)]
        with torch.no_grad():
            for anchor, theta in zip(self.anchor, self.net.parameters(), strict=True):
                anchor.sub_(anchor - theta, alpha=self.pull)
        return values[0]


class PFedMeKnobs(Strict):
    """`eta` times `lambda`, at most 1, is the share of the way w_k goes towards theta_k after each batch.

    The public code's values (15 and .005, with SGD at .09) do not carry over to Adam: its steps are about lr in size
    whatever the gradient, so at lambda 15 the leash outweighs the data and theta_k only trembles around w_k.
    """

    leash: float = Field(0.1, gt=0, alias="lambda")
    inner_steps: int = Field(5, ge=1)
    inner_lr: float | None = Field(None, gt=0)
    eta: float = Field(5.0, gt=0)
    beta: float = Field(1.0, ge=0, le=1)

    @model_validator(mode="after")
    def _stable(self) -> PFedMeKnobs:
        if self.eta * self.leash > 1:
            raise ValueError(f"eta * lambda is {self.eta * self.leash:g}: above 1, w_k overshoots theta_k")
        return self


class PFedMe(Personalized[PFedMeKnobs]):
    """w_g averages the anchors; theta_k stays at its site."""

    name = "pfedme"
    paper = "Dinh et al. 2020; FedSM Table 6, IOP-FL Table I"
    Knobs = PFedMeKnobs

    def learners(self, site: SiteRound) -> list[Learner]:
        knobs = self.knobs
        options = {"leash": knobs.leash, "inner_steps": knobs.inner_steps, "eta": knobs.eta, "lr": knobs.inner_lr}
        return [site.learner(PERSONAL, site.received[self.shared], MoreauLearner, **options)]

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        learner = learners[PERSONAL]
        assert isinstance(learner, MoreauLearner)
        theta = site.store.models[PERSONAL] = learner.state()
        names = [name for name, _ in learner.net.named_parameters()]
        return {self.shared: theta | {name: w.cpu() for name, w in zip(names, learner.anchor, strict=True)}}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        found = super().aggregate(server, updates)
        if self.knobs.beta == 1 or not found:
            return found
        pair, beta = [server.models[self.shared], found[self.shared]], self.knobs.beta
        return {self.shared: combine(pair, [1 - beta, beta])}
