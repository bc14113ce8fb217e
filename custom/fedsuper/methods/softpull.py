"""SoftPull (FedSM, Eq. 11): personalized models that lean on one another, each towards its own site's data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedsuper.config import Study
from fedsuper.core.aggregate import soft_pull
from fedsuper.core.state import Models
from fedsuper.methods.base import PERSONAL, Method, Role
from fedsuper.methods.server import Server, Update
from fedsuper.methods.site import Site
from fedsuper.train.learner import Learner


class SoftPull(Method):
    """w_{p,k} <- lambda w_{p,k} + (1 - lambda)/(K - 1) sum_{j != k} w_{p,j} at the server, after each round.

    K is the number of sites that reported: a site that missed the round keeps its last model untouched and
    neither pulls nor is pulled.
    """

    name = "softpull"
    paper = "FedSM Eq. 11, Algorithm 1 line 16"
    travels = "w down, w up"
    mode = "own"

    def __init__(self, study: Study, lam: float) -> None:
        super().__init__(study)
        self.lam = lam

    def check(self, sites: Sequence[str]) -> list[str]:
        if len(sites) > 1 and self.lam < 1 / len(sites):
            return [
                f"lambda {self.lam} is below 1/K = {1 / len(sites):.3f} for {len(sites)} sites: every personalized "
                "model is pushed past the mean, away from its own site; use a value in [1/K, 1]"
            ]
        return []

    def roles(self) -> list[Role]:
        return [Role(PERSONAL, per_site=True)]

    def learners(self, site: Site) -> list[Learner]:
        return [site.learner(PERSONAL, site.received[PERSONAL])]

    def uplink(self, site: Site, learners: Mapping[str, Learner]) -> Models:
        return {PERSONAL: learners[PERSONAL].state()}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        uploads = {site: update.models[PERSONAL] for site, update in updates.items() if PERSONAL in update.models}
        return {f"{PERSONAL}/{site}": state for site, state in soft_pull(uploads, self.lam).items()} if uploads else {}
