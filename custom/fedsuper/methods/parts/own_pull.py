"""SoftPull whose strength every site finds for itself (`lambda: auto`), by its own validation images, round by round.

    w_k <- a w_k + (1 - a) mean_j w_j,   a in SHARES

is Eq. 11 with a = (K lambda - 1)/(K - 1): a = 0 is the plain mean (lambda = 1/K), a = 1 the site's own model. The
server sends the mean of the raw uploads instead of a pulled model, the site mixes it with the upload it kept, scores
each mixture and trains on from the best, or from a more shared one within one standard error of it, image by image. No
more travels than with a fixed lambda.

A site that was away mixes the last model the server counted with today's mean; one that is away at the end is handed
its last upload. One with fewer validation patients than may be told of takes `DEFAULT`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fedsuper.core.aggregate import moving_average
from fedsuper.core.state import Models, State
from fedsuper.core.supermodel import SuperModel
from fedsuper.core.validated.candidate_choice import Figures, common_choice
from fedsuper.methods.parts.own_choice import image_dice
from fedsuper.methods.protocol.method import Method, NoKnobs
from fedsuper.methods.protocol.nets import first_segmentation
from fedsuper.methods.protocol.role import PERSONAL, Role
from fedsuper.methods.protocol.server import Server, Update
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.methods.protocol.upload import Upload, model
from fedsuper.train.learner import Learner

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
DEFAULT = 2
CENTER, RAW, SHARE = "personal-mean", "raw", "share"


class OwnPull(Method[NoKnobs]):
    """The personalized model stays at its site as the mixture it chose; its raw upload makes the next mean."""

    name = "own-pull"

    def roles(self) -> list[Role]:
        return [Role(PERSONAL, holder="site", per_site=True)]

    def start(self, server: Server) -> Models:
        return {CENTER: first_segmentation(self.study, server.task)}

    def downlink(self, server: Server, site: str) -> Models:
        return {CENTER: server.models[CENTER]}

    def candidates(self, site: SiteRound) -> Models:
        return {PERSONAL: self.pulled(site)}

    def learners(self, site: SiteRound) -> list[Learner]:
        return [site.learner(PERSONAL, self.pulled(site))]

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        raw = site.store.models[RAW] = learners[PERSONAL].state()
        told = {} if self._too_few(site) else {SHARE: {"taken": torch.tensor(site.store.values[SHARE])}}
        return {PERSONAL: raw, **told}

    def uploads(self, server: Server, site: str, sent: Models) -> dict[str, Upload]:
        last = float(len(SHARES) - 1)
        share = Upload({"taken": torch.tensor(0)}, least=0.0, most=last, optional=True, limits={"taken": (0.0, last)})
        return {PERSONAL: model(sent[CENTER]), SHARE: share}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        center = self.mean(updates, PERSONAL, uniform=True)
        taken = {site: int(update.models[SHARE]["taken"]) for site, update in updates.items() if SHARE in update.models}
        once = torch.eye(len(SHARES), dtype=torch.int64)
        counted = {f"{SHARE}/{site}": {"times": _times(server, site) + once[index]} for site, index in taken.items()}
        raw = {f"{PERSONAL}/{site}": update.models[PERSONAL] for site, update in updates.items()}
        return ({} if center is None else {CENTER: center}) | raw | counted

    def pulled(self, site: SiteRound) -> State:
        """The mixture this site goes on from, found once a round."""
        if site.store.values.get("pulled") != site.round:
            index, state = self._best(site)
            site.store.models[PERSONAL] = state
            site.store.values |= {"pulled": site.round, SHARE: index}
        return site.store.models[PERSONAL]

    def _best(self, site: SiteRound) -> tuple[int, State]:
        center, raw = site.received[CENTER], site.store.models.get(RAW)
        if raw is None:
            return 0, center
        mixed = [moving_average(center, raw, share) for share in SHARES]
        if self._too_few(site):
            return DEFAULT, mixed[DEFAULT]
        dice = torch.stack([image_dice(site, state) for state in mixed])
        index, _ = common_choice([Figures.of(dice)], tie=1.0)  # within one standard error of the best the most shared
        return index, mixed[index]

    def _too_few(self, site: SiteRound) -> bool:
        return len(set(site.val.cases)) < site.minimum


def with_shares(whole: SuperModel, server: Server) -> SuperModel:
    """The manifest says how often each site took which share of its own model, where sites choose it."""
    told = {site: _times(server, site).tolist() for site in server.sites if f"{SHARE}/{site}" in server.models}
    if told:
        names = [f"{share:g}" for share in SHARES]
        whole.manifest["shares"] = {site: dict(zip(names, times, strict=True)) for site, times in told.items()}
    return whole


def _times(server: Server, site: str) -> torch.Tensor:
    kept = server.models.get(f"{SHARE}/{site}")
    return torch.zeros(len(SHARES), dtype=torch.int64) if kept is None else kept["times"]
