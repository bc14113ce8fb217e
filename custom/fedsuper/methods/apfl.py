"""APFL (Deng et al. 2020): every site mixes its own model v_k with its copy w_k of the global one.

Per batch, after w_k's own step (which is FedAvg's, whatever alpha is):

    v_k <- v_k - eta grad_v f_k(alpha v_k + (1 - alpha) w_k)        w_k constant; the chain rule gives a factor alpha
    deployed: alpha v_k + (1 - alpha) w_k

With `adaptive`, once per round, on its first batch:

    alpha <- clip(alpha - eta (<v_k - w_k, grad at the mixture> + .02 alpha), 0, 1)

The mixture has norm statistics of its own, those of its forward passes. (Under Adam the factor alpha cancels, as any
constant factor does.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field
from torch.func import functional_call

from fedsuper.config import Strict
from fedsuper.core.state import Models, State
from fedsuper.methods.parts.personalized import Personalized
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.train.learner import Batch, Learner

OWN, ALPHA = "apfl-own", "apfl-alpha"
SHRINK = 0.02


class MixtureLearner(Learner):
    """Trains v through the mixture with its partner's current weights."""

    def __init__(self, *args: Any, partner: Learner, alpha: float, adaptive: bool) -> None:
        super().__init__(*args)
        self.partner = partner
        self.alpha = alpha
        self.adaptive = adaptive

    def mixture(self) -> State:
        """alpha v + (1 - alpha) w over the trainable parameters."""
        others = dict(self.partner.net.named_parameters())
        pairs = ((name, own, others[name]) for name, own in self.net.named_parameters())
        return {name: (self.alpha * own + (1 - self.alpha) * other).detach() for name, own, other in pairs}

    def gradients(self, batch: Batch) -> torch.Tensor:
        mixed = {name: weight.requires_grad_() for name, weight in self.mixture().items()}
        with self.compute.autocast():
            value = self.loss(functional_call(self.net, mixed, (batch.images,)), batch.masks)
        found = torch.autograd.grad(self._scaler.scale(value), list(mixed.values()))
        slopes = [slope / self._scaler.get_scale() for slope in found]
        self.set_gradients([self.alpha * slope for slope in slopes])
        if self.adaptive and self.steps == 0:
            self._adapt(slopes)
        return value.detach()

    @torch.no_grad()
    def _adapt(self, slopes: list[torch.Tensor]) -> None:
        pairs = zip(self.net.parameters(), self.partner.net.parameters(), slopes, strict=True)
        slope = sum(float(((own - other) * slope).sum()) for own, other, slope in pairs) + SHRINK * self.alpha
        self.alpha = min(max(self.alpha - self.optimizer.param_groups[0]["lr"] * slope, 0.0), 1.0)

    def deployed(self) -> State:
        """The mixture as a whole model, with the statistics it was trained with."""
        return self.state() | {name: weight.cpu() for name, weight in self.mixture().items()}


class APFLKnobs(Strict):
    """`alpha` is the weight of the site's own model; with `adaptive` it is where each site starts."""

    alpha: float = Field(0.5, ge=0, le=1)
    adaptive: bool = False


class APFL(Personalized[APFLKnobs]):
    """The global branch is FedAvg for any alpha. v_k starts from the model the site first receives."""

    name = "apfl"
    paper = "Deng et al. 2020; FedSM Eq. 5, Table 6"
    keeps = "its own model v_k, alpha_k, the mixture, optimizer states"
    Knobs = APFLKnobs

    def learners(self, site: SiteRound) -> list[Learner]:
        (partner,) = super().learners(site)
        start = site.store.models.get(OWN) or site.received[self.shared]
        alpha = site.store.values.get(ALPHA, self.knobs.alpha)
        options = {"partner": partner, "alpha": alpha, "adaptive": self.knobs.adaptive}
        return [partner, site.learner(PERSONAL, start, MixtureLearner, **options)]

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        own = learners[PERSONAL]
        assert isinstance(own, MixtureLearner)
        site.store.models |= {OWN: own.state(), PERSONAL: own.deployed()}
        site.store.values[ALPHA] = own.alpha
        return super().uplink(site, learners)
