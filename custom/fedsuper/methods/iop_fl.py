"""IOP-FL, inside the federation (Jiang et al. 2023, Eq. 4 as corrected): the locally adapted model.

    P_k <- (1 - tau) P_k + tau w_k,   w_k = site k's model after the round's training from w_g,   P_k^0 = w_g^0

Eq. 4 as printed adds gradients to (1 - tau) P_k without the model they start from; taken literally it decays to zero.
The global branch is FedAvg and does not depend on tau. Running statistics are averaged along, integer counters copied.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from fedsuper.config import Strict
from fedsuper.core.aggregate import moving_average
from fedsuper.core.state import Models
from fedsuper.methods.base import PERSONAL
from fedsuper.methods.personalised import Personalised
from fedsuper.methods.site import Site
from fedsuper.train.learner import Learner


class IOPFLKnobs(Strict):
    """`tau` is the paper's accumulation rate; 1 is the local copy w_k itself, 0 the first weights."""

    tau: float = Field(0.9, ge=0, le=1)


class IOPFL(Personalised):
    """P_k stays at its site until the end; a site that joins late starts it from the model it first receives."""

    name = "iop-fl"
    paper = "IOP-FL Eq. 4, Algorithm 1"
    Knobs = IOPFLKnobs

    def uplink(self, site: Site, learners: Mapping[str, Learner]) -> Models:
        sent = super().uplink(site, learners)
        before = site.store.models.get(PERSONAL) or site.received[self.shared]
        site.store.models[PERSONAL] = moving_average(before, sent[self.shared], self.knobs.tau)
        return sent
