"""FedAvg (McMahan et al. 2017): w_g <- sum_k p_k w_k, p_k = n_k / sum_j n_j over the sites that reported."""

from __future__ import annotations

from collections.abc import Mapping

from fedsuper.config import Study
from fedsuper.core.state import Models
from fedsuper.core.supermodel import GLOBAL
from fedsuper.methods.protocol.method import K, Method
from fedsuper.methods.protocol.role import Role
from fedsuper.methods.protocol.server import Server, Update
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.train.learner import Learner


class FedAvg(Method[K]):
    """Each site trains the global model on its own data; the server averages the copies by sample count.

    `shared` is the role of the averaged model. Methods whose averaged model is not FedAvg's own (Per-FedAvg,
    pFedMe) are given another name for it where both must live side by side, as in FedSM.
    """

    name = "fedavg"
    paper = "FedSM section 2; McMahan et al. 2017"
    travels = "w down, w up"

    def __init__(self, study: Study, shared: str = GLOBAL) -> None:
        super().__init__(study)
        self.shared = shared

    def roles(self) -> list[Role]:
        return [Role(self.shared)]

    def learners(self, site: SiteRound) -> list[Learner]:
        return [site.learner(self.shared, site.received[self.shared])]

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        return {self.shared: learners[self.shared].state()}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        mean = self.mean(updates, self.shared)
        return {} if mean is None else {self.shared: mean}
