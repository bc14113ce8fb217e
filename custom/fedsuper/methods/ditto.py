"""Ditto (Li et al. 2021): every site trains a model of its own beside the global one, tied to it by a spring.

    w_g: FedAvg                                                    v_k does not enter
    v_k <- argmin f_k(v) + (lambda/2) ||v - w_g||^2                on the same batches, w_g as received

lambda = 0 is local training; as lambda grows, v_k stays with the global model.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from fedsuper.config import Strict
from fedsuper.core.state import Models
from fedsuper.methods.fedprox import proximal
from fedsuper.methods.parts.personalized import Personalized
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.train.learner import Learner


class DittoKnobs(Strict):
    """`lambda` is the strength of the spring."""

    spring: float = Field(0.1, ge=0, alias="lambda")


class Ditto(Personalized[DittoKnobs]):
    """v_k stays at its site and goes on from round to round; it starts from the model the site first receives."""

    name = "ditto"
    paper = "Li et al. 2021 (Ditto)"
    Knobs = DittoKnobs

    def learners(self, site: SiteRound) -> list[Learner]:
        (shared,) = super().learners(site)
        anchor = [weight.detach().clone() for weight in shared.net.parameters()]
        own = site.learner(PERSONAL, site.store.models.get(PERSONAL) or site.received[self.shared])
        own.penalty = proximal(anchor, self.knobs.spring)
        return [shared, own]

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        site.store.models[PERSONAL] = learners[PERSONAL].state()
        return super().uplink(site, learners)
