"""SoftPull (FedSM, Eq. 11): personalized models that lean on one another, each towards its own site's data.

A method of its own where the site of every image is known: what FedSM reaches with it less what it reaches through its
selector is the selector's cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from fedsuper.config import Strict, Study
from fedsuper.core.aggregate import similar_pull, soft_pull
from fedsuper.core.mode import OWN
from fedsuper.core.robust import CENTERS, pull_to
from fedsuper.core.state import Models
from fedsuper.methods.protocol.method import Method
from fedsuper.methods.protocol.role import PERSONAL, Role
from fedsuper.methods.protocol.server import Server, Update
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.train.learner import Learner


class SoftPullKnobs(Strict):
    """`lambda` as in FedSM; `weights` prefers neighbors whose models are near (`similar`), or none (`uniform`)."""

    lam: float = Field(0.7, ge=0, le=1, alias="lambda")
    weights: Literal["uniform", "similar"] = "uniform"


class SoftPull(Method[SoftPullKnobs]):
    """w_{p,k} <- lambda w_{p,k} + (1 - lambda)/(K - 1) sum_{j != k} w_{p,j} at the server, after each round.

    K is the number of sites that reported: a site that missed the round keeps its last model untouched and
    neither pulls nor is pulled. Where so few reported that lambda is below 1/K, models would be pushed past their mean
    and away from their own sites (with two reporters and lambda 0 they change places): 1/K, the plain mean, is used.
    """

    name = "softpull"
    paper = "FedSM Eq. 11, Algorithm 1 line 16"
    travels = "w down, w up"
    mode = OWN
    Knobs = SoftPullKnobs

    def __init__(self, study: Study, lam: float | None = None) -> None:
        super().__init__(study)
        self.lam = self.knobs.lam if lam is None else lam

    def check(self, sites: Sequence[str]) -> list[str]:
        if len(sites) > 1 and self.lam < 1 / len(sites):
            return [
                f"lambda {self.lam} is below 1/K = {1 / len(sites):.3f} for {len(sites)} sites: a pull past "
                "the mean, away from the own site; the plain mean is used, set lambda in [1/K, 1]"
            ]
        return []

    def roles(self) -> list[Role]:
        return [Role(PERSONAL, per_site=True)]

    def learners(self, site: SiteRound) -> list[Learner]:
        return [site.learner(PERSONAL, site.received[PERSONAL])]

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        return {PERSONAL: learners[PERSONAL].state()}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        uploads = {site: update.models[PERSONAL] for site, update in updates.items() if PERSONAL in update.models}
        pull = similar_pull if self.knobs.weights == "similar" else soft_pull
        lam = max(self.lam, 1 / max(1, len(uploads)))
        center = CENTERS.get(self.study.federation.robust)
        if uploads and center is not None:
            pulled = pull_to(uploads, center(list(uploads.values())), lam)
        else:
            pulled = pull(uploads, lam) if uploads else {}
        return {f"{PERSONAL}/{site}": state for site, state in pulled.items()}
