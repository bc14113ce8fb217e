"""Per-FedAvg (Fallah et al. 2020): a global model that one gradient step turns into a good local one.

    w <- w - beta (I - a H(w)) g,   g = grad f_k(w - a grad f_k(w))

on independent batches for the inner gradient, g and H. First order drops H (`hessian: dropped`), Hessian-free
(`free`) takes it from a central difference along the unit vector u = g/|g|:

    H g = |g| (grad f_k(w + d u) - grad f_k(w - d u)) / 2d

beta is the study's optimizer and the epoch's batch serves the outer gradient, so with a = 0 the method is FedAvg.
Deployed: P_k = w_g - a grad f_k(w_g), one step with the mean gradient over the site's training data. Sites keep no
state of their own between rounds.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field

from fedsuper.config import Strict
from fedsuper.core.state import Models
from fedsuper.core.supermodel import GLOBAL
from fedsuper.methods.parts.personalized import Personalized
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.train.learner import Batch, GradientLearner, Learner

Vector = list[torch.Tensor]


class MetaLearner(Learner):
    """Follows the gradient of the loss after one inner step."""

    def __init__(self, *args: Any, alpha: float, delta: float | None) -> None:
        super().__init__(*args)
        self.alpha = alpha
        self.delta = delta

    def gradients(self, batch: Batch) -> torch.Tensor:
        if self.alpha == 0:
            return super().gradients(batch)
        origin = [weight.detach().clone() for weight in self.parameters]
        self.move_to(origin, self.gradient_of(self.objective(batch.another())), -self.alpha)
        value = self.objective(batch)
        outer = self.gradient_of(value)
        if self.delta is not None:
            curved = self._hessian_times(origin, outer, batch.another())
            outer = [slope - self.alpha * bend for slope, bend in zip(outer, curved, strict=True)]
        self.move_to(origin, outer, 0)
        self.set_gradients(outer)
        return value.detach()

    def _hessian_times(self, origin: Vector, vector: Vector, batch: Batch) -> Vector:
        """H(origin) vector by a central difference along the unit vector."""
        assert self.delta is not None
        size = float(torch.stack([part.norm() for part in vector]).norm())
        if size == 0:
            return vector
        ends = []
        for side in (self.delta, -self.delta):
            self.move_to(origin, vector, side / size)
            ends.append(self.gradient_of(self.objective(batch)))
        return [(above - below) * (size / (2 * self.delta)) for above, below in zip(*ends, strict=True)]


class PerFedAvgKnobs(Strict):
    """`alpha` is the inner step, `hessian` how the second-order term is treated, `delta` the difference for `free`."""

    alpha: float = Field(0.01, ge=0)
    hessian: Literal["dropped", "free"] = "dropped"
    delta: float = Field(0.001, gt=0)


class PerFedAvg(Personalized[PerFedAvgKnobs]):
    """The averaged model is a starting point; each site deploys it one gradient step further."""

    name = "per-fedavg"
    paper = "Fallah et al. 2020; FedSM Table 6"
    keeps = "optimizer state"
    Knobs = PerFedAvgKnobs

    def learners(self, site: SiteRound) -> list[Learner]:
        delta = self.knobs.delta if self.knobs.hessian == "free" else None
        return [site.learner(self.shared, site.received[self.shared], MetaLearner, alpha=self.knobs.alpha, delta=delta)]

    def candidates(self, site: SiteRound) -> Models:
        start = site.received[self.shared]
        learner = site.learner(PERSONAL, start, GradientLearner)
        assert isinstance(learner, GradientLearner)
        site.fit([learner], epochs=1, purpose="adapt")
        origin = [weight.detach().clone() for weight in learner.parameters]
        learner.move_to(origin, learner.mean_gradient(), -self.knobs.alpha)
        shown = {GLOBAL: start} if self.shared == GLOBAL else {}
        return shown | {PERSONAL: learner.state()}
