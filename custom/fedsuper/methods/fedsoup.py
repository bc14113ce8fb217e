"""FedSoup (Chen et al. 2023): each site seasons its local model with those past global models that agree with its data.

From round `start` times R on, a site keeps the mean G of m global models it took into its pool. After local training:

    without = (w_k + m G) / (m + 1)          with = (w_k + m G + w_g) / (m + 2)

`with` is used, and w_g joins the pool, where it scores higher on the site's validation images; else `without`. The
result is the site's model, and what it sends to be averaged. (The released code judges on the test images.)
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from fedsuper.config import Strict
from fedsuper.core.state import Models, State, combine
from fedsuper.methods.parts.personalized import Personalized
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.train.learner import Learner

POOL, POOLED = "fedsoup-pool", "fedsoup-pooled"


class FedSoupKnobs(Strict):
    """`start` is the share of the rounds that pass before the first interpolation (with `rounds: auto` none)."""

    start: float = Field(0.75, ge=0, le=1)


class FedSoup(Personalized[FedSoupKnobs]):
    """The pool stays at its site: an absent site misses that round's global model and nothing else."""

    name = "fedsoup"
    paper = "Chen et al. 2023"
    keeps = "the mean of its pool of global models, its model, optimizer state"
    Knobs = FedSoupKnobs

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        local = super().uplink(site, learners)[self.shared]
        total = 0 if self.study.rounds == "auto" else self.study.rounds
        model = self.soup(site, local) if site.round > self.knobs.start * total else local
        site.store.models[PERSONAL] = model
        return {self.shared: model}

    def soup(self, site: SiteRound, local: State) -> State:
        """The better of the two interpolations; the pool grows where the one with the newest global model is."""
        count = int(site.store.values.get(POOLED, 0))
        newest = site.received[self.shared]
        pool = site.store.models.get(POOL, newest)
        without = combine([local, pool], [1 / (count + 1), count / (count + 1)])
        richer = combine([local, pool, newest], [1 / (count + 2), count / (count + 2), 1 / (count + 2)])
        if site.dice(richer) <= site.dice(without):
            return without
        site.store.models[POOL] = combine([pool, newest], [count / (count + 1), 1 / (count + 1)])
        site.store.values[POOLED] = count + 1
        return richer
