"""Local training: every site alone. Nothing travels but the finished model, once, for scoring on the other sites."""

from __future__ import annotations

from collections.abc import Mapping

from fedsuper.core.mode import OWN
from fedsuper.core.state import Models
from fedsuper.methods.protocol.method import Method, NoKnobs
from fedsuper.methods.protocol.nets import first_segmentation
from fedsuper.methods.protocol.role import PERSONAL, Role
from fedsuper.methods.protocol.server import Server
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.train.learner import Learner

FIRST = "first"


class Local(Method[NoKnobs]):
    """w_k is trained on site k's data only, from the same first weights as every other method."""

    name = "local"
    paper = "FedSM section 4, 'Client k Local'"
    travels = "nothing (the first weights down once, the finished model up once)"
    keeps = "its model, optimizer state"
    mode = OWN

    def roles(self) -> list[Role]:
        return [Role(PERSONAL, holder="site", per_site=True)]

    def start(self, server: Server) -> Models:
        return {FIRST: first_segmentation(self.study, server.task)}

    def downlink(self, server: Server, site: str) -> Models:
        return {} if site in server.accepted else {FIRST: server.models[FIRST]}

    def learners(self, site: SiteRound) -> list[Learner]:
        start = site.store.models.get(PERSONAL) or site.received[FIRST]
        return [site.learner(PERSONAL, start)]

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        site.store.models[PERSONAL] = learners[PERSONAL].state()
        return {}
