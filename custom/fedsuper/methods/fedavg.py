"""FedAvg (McMahan et al. 2017): w_g <- sum_k p_k w_k, p_k = n_k / sum_j n_j over the sites that reported."""

from __future__ import annotations

from collections.abc import Mapping

from fedsuper.core.aggregate import weighted_mean
from fedsuper.core.state import Models
from fedsuper.core.supermodel import GLOBAL
from fedsuper.methods.base import Method, Role
from fedsuper.methods.server import Server, Update, mean_by_samples
from fedsuper.methods.site import Site
from fedsuper.train.learner import Learner


class FedAvg(Method):
    """Each site trains the global model on its own data; the server averages the copies by sample count."""

    name = "fedavg"
    paper = "FedSM section 2; McMahan et al. 2017"
    travels = "w down, w up"

    def roles(self) -> list[Role]:
        return [Role(GLOBAL)]

    def learners(self, site: Site) -> list[Learner]:
        return [site.learner(GLOBAL, site.received[GLOBAL])]

    def uplink(self, site: Site, learners: Mapping[str, Learner]) -> Models:
        return {GLOBAL: learners[GLOBAL].state()}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        states, weights = mean_by_samples(updates, GLOBAL)
        return {GLOBAL: weighted_mean(states, weights)} if states else {}
