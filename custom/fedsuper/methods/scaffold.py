"""Scaffold (Karimireddy et al. 2020): control variates that cancel each site's drift.

    y   <- y - eta (g - c_k + c)                       every local step
    c_k <- c_k - c + (w_g - y) / (S eta)               after S steps (option II of the paper)
    w_g <- sum_k p_k y_k,   c <- c + sum_k p_k (c_k^new - c_k^old)

Scaffold is derived for SGD. Here the correction is applied AFTER the optimizer's step:

    y <- y - eta u - eta (c - c_k),   u the optimizer's own direction

For SGD u = g and this is the paper's update. For Adam (w_g - y)/(S eta) is no gradient but the mean of u + c - c_k, so
c_k becomes the site's mean direction u: controls and steps stay in the same units, which they would not if c - c_k
were added to the gradient before Adam rescales it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from fedsuper.core.state import Models, State
from fedsuper.core.supermodel import GLOBAL
from fedsuper.methods.fedavg import FedAvg
from fedsuper.methods.protocol.method import NoKnobs
from fedsuper.methods.protocol.nets import trainable
from fedsuper.methods.protocol.server import Server, Update, zeros_like
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.methods.protocol.upload import Upload
from fedsuper.train.learner import Batch, Learner

CONTROL = "control"


class CorrectedLearner(Learner):
    """Adds -eta (c - c_k) after each optimizer step."""

    def __init__(self, *args: Any, correction: State) -> None:
        super().__init__(*args)
        self.correction = correction

    @property
    def lr(self) -> float:
        """The step size eta."""
        return float(self.optimizer.param_groups[0]["lr"])

    def step(self, batch: Batch) -> torch.Tensor:
        value = super().step(batch)
        with torch.no_grad():
            for name, weight in self.net.named_parameters():
                weight.sub_(self.correction[name], alpha=self.lr)
        return value


class Scaffold(FedAvg[NoKnobs]):
    """Controls cover the trainable parameters; buffers are averaged as in FedAvg.

    Attendance: an absent site keeps c_k, and c adds only the changes of those present, with p_k over ALL sites and not
    renormalized. So c = sum_k p_k c_k holds whoever attends.
    """

    name = "scaffold"
    paper = "Karimireddy et al. 2020; FedSM section 4"
    travels = "w + c down, w + c up"
    keeps = "its control c_k, optimizer state"

    def start(self, server: Server) -> Models:
        models = super().start(server)
        return models | {CONTROL: zeros_like(trainable(self.study, models[GLOBAL]))}

    def no_newcomers(self) -> str | None:
        return "scaffold's c = sum_k p_k c_k is over the sites of its first round"

    def downlink(self, server: Server, site: str) -> Models:
        return super().downlink(server, site) | {CONTROL: server.models[CONTROL]}

    def learners(self, site: SiteRound) -> list[Learner]:
        own, shared = self._own(site), site.received[CONTROL]
        correction = {name: (shared[name] - own[name]).to(site.compute.device) for name in shared}
        return [site.learner(GLOBAL, site.received[GLOBAL], CorrectedLearner, correction=correction)]

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        learner = learners[GLOBAL]
        assert isinstance(learner, CorrectedLearner)
        start, shared, old, end = site.received[GLOBAL], site.received[CONTROL], self._own(site), learner.state()
        new = dict(old)
        if learner.steps > 0:
            way = learner.steps * learner.lr
            new = {name: own - shared[name] + (start[name] - end[name]) / way for name, own in old.items()}
        site.store.models[CONTROL] = new
        return {GLOBAL: end, CONTROL: {name: new[name] - old[name] for name in new}}

    def uploads(self, server: Server, site: str, sent: Models) -> dict[str, Upload]:
        return super().uploads(server, site, sent) | {CONTROL: Upload(sent[CONTROL])}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        change = self.mean(updates, CONTROL)
        if change is None:
            return {}
        share = sum(update.samples for update in updates.values()) / sum(server.samples.values())
        control = {name: total + share * change[name] for name, total in server.models[CONTROL].items()}
        return super().aggregate(server, updates) | {CONTROL: control}

    def _own(self, site: SiteRound) -> State:
        return site.store.models.get(CONTROL) or zeros_like(site.received[CONTROL])
