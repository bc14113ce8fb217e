"""IOP-FL, inside the federation (Jiang et al. 2023, Eq. 4 as corrected): the locally adapted model.

    P_k <- (1 - tau) P_k + tau w_k,   w_k = site k's model after the round's training from w_g,   P_k^0 = w_g^0

Eq. 4 as printed adds gradients to (1 - tau) P_k without the model they start from; taken literally it decays to zero.
The global branch does not depend on tau; it averages by n_k/n as the released code does, or by 1/K as the paper prints
(`average`). Running statistics are averaged along, integer counters copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from fedsuper.config import Strict
from fedsuper.core.aggregate import moving_average
from fedsuper.core.state import Models
from fedsuper.methods.parts.personalized import Personalized
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.methods.protocol.server import Server, Update
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.train.learner import Learner


class IOPFLKnobs(Strict):
    """`tau` is the paper's accumulation rate; 1 is the local copy w_k itself, 0 the first weights.

    `average` weighs the sites' models by their samples (n_k/n) or alike (1/K).
    """

    tau: float = Field(0.9, ge=0, le=1)
    average: Literal["samples", "sites"] = "samples"


class IOPFL(Personalized[IOPFLKnobs]):
    """P_k stays at its site until the end; a site that joins late starts it from the model it first receives."""

    name = "iop-fl"
    paper = "IOP-FL Eq. 4, Algorithm 1"
    Knobs = IOPFLKnobs

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        sent = super().uplink(site, learners)
        before = site.store.models.get(PERSONAL) or site.received[self.shared]
        site.store.models[PERSONAL] = moving_average(before, sent[self.shared], self.knobs.tau)
        return sent

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        mean = self.mean(updates, self.shared, uniform=self.knobs.average == "sites")
        return {} if mean is None else {self.shared: mean}
