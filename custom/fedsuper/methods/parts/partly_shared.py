"""FedAvg over a part of the model: the other, private part never leaves its site."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from fedsuper.config import Study
from fedsuper.core.aggregate import weighted_mean
from fedsuper.core.mode import OWN
from fedsuper.core.state import Models, State, select
from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.methods.fedavg import FedAvg
from fedsuper.methods.protocol import nets
from fedsuper.methods.protocol.method import K
from fedsuper.methods.protocol.role import PERSONAL, Role
from fedsuper.methods.protocol.server import Server, Update
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.methods.protocol.upload import Upload, model
from fedsuper.train.learner import Learner

PRIVATE = "private"


class PartlyShared(FedAvg[K]):
    """w_k = (shared, private_k): shared <- sum_k p_k shared_k as in FedAvg, private_k is trained by site k alone.

    The site's model is what was received with the private part put in. With nothing private the method is FedAvg.
    Attendance: an absent site keeps its private part; a site that comes late starts it from the first weights.
    A new site has no private part: the global model handed over is the mean of the sites' models by sample count.
    """

    keeps = "the private part of its model, optimizer state"
    mode = OWN

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        net = nets.blueprint(study)
        self.private = self.private_entries(net)
        self.public = frozenset(net.state_dict()) - self.private
        if not self.private:
            self.mode = GLOBAL

    def private_entries(self, net: nn.Module) -> frozenset[str]:
        """The state entries that stay at the site."""
        raise TypeError(f"{type(self).__name__} must define private_entries")

    def roles(self) -> list[Role]:
        return [Role(GLOBAL)] + ([Role(PERSONAL, holder="site", per_site=True)] if self.private else [])

    def downlink(self, server: Server, site: str) -> Models:
        """The shared part; a site that was never counted gets the first weights of its private part as well."""
        state = server.models[GLOBAL]
        return {GLOBAL: select(state, self.public) if site in server.accepted else state}

    def model_of(self, site: SiteRound) -> State:
        """The site's model as things stand: the received part and its own."""
        return site.received.get(GLOBAL, {}) | site.store.models.get(PRIVATE, {})

    def learners(self, site: SiteRound) -> list[Learner]:
        return [site.learner(GLOBAL, self.model_of(site))]

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        state = learners[GLOBAL].state()
        site.store.models[PRIVATE] = select(state, self.private)
        return {GLOBAL: select(state, self.public)}

    def uploads(self, server: Server, site: str, sent: Models) -> dict[str, Upload]:
        return {GLOBAL: model(select(sent[GLOBAL], self.public))}

    def candidates(self, site: SiteRound) -> Models:
        return {PERSONAL if self.private else GLOBAL: self.model_of(site)}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        mean = super().aggregate(server, updates).get(GLOBAL, {})
        return {GLOBAL: server.models[GLOBAL] | mean}

    def super_model(self, server: Server) -> SuperModel:
        whole = super().super_model(server)
        known = {site: server.best_models[f"{PERSONAL}/{site}"] for site in server.sites
                 if f"{PERSONAL}/{site}" in server.best_models}
        if known:
            whole.global_model = weighted_mean(list(known.values()), [float(server.samples[site]) for site in known])
            rest = {site: whole.global_model for site in server.sites if site not in known}
            whole.personal = {**whole.personal, **rest}
        return whole
