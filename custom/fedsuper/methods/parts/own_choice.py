"""No site is worse off: after training, each site takes what serves its own validation images best (`personal: auto`).

Candidates, the most shared first: the global model, the site's personalized model (the best of each on validation data
so far), and that model fine-tuned at home for a few epochs. The best mean Dice wins, but a more shared model within one
standard error of it, image by image, is preferred: what many sites stand behind generalizes, a lead of chance does not.

Two rounds after training: `last-look`, in which the last models are scored, and `choosing`. A site that misses the
second keeps its personalized model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fedsuper.config import Study
from fedsuper.core.metrics import dice_scores
from fedsuper.core.state import Models, State
from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.methods.protocol.method import Method, NoKnobs
from fedsuper.methods.protocol.phases import Phase
from fedsuper.methods.protocol.role import PERSONAL, Role
from fedsuper.methods.protocol.server import Server, Update
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.methods.protocol.upload import Upload, model
from fedsuper.train.loop import predict

LAST_LOOK, CHOOSING = "last-look", "choosing"
PHASES = (Phase(LAST_LOOK, 1), Phase(CHOOSING, 1))
CHOSEN, CHOICE = "chosen", "choice"
FINE_TUNED = "fine-tuned"
CANDIDATES = (GLOBAL, PERSONAL, FINE_TUNED)


def most_shared(dice: Sequence[torch.Tensor]) -> int:
    """The index of the candidate to take, from each one's Dice per image, the most shared candidate first.

    Of those whose shortfall from the best is at most its own standard error (paired, over images) the first.
    """
    best = max(range(len(dice)), key=lambda index: float(dice[index].mean()))
    for index, scores in enumerate(dice):
        short = dice[best] - scores
        error = float(short.std(correction=1)) / len(short) ** 0.5 if len(short) > 1 else 0.0
        if float(short.mean()) <= error:
            return index
    return best


class LastLook(Method[NoKnobs]):
    """Scores the models of the last training round, so that the best of all rounds is known. Nothing is trained."""

    name = LAST_LOOK

    def __init__(self, study: Study, whole: Method[Any]) -> None:
        super().__init__(study)
        self.whole = whole

    def roles(self) -> list[Role]:
        return self.whole.roles()

    def downlink(self, server: Server, site: str) -> Models:
        return self.whole.downlink(server, site)

    def uploads(self, server: Server, site: str, sent: Models) -> dict[str, Upload]:
        return {}

    def candidates(self, site: SiteRound) -> Models:
        return self.whole.candidates(site)

    def score(self, site: SiteRound, role: Role, state: State) -> dict[str, float]:
        return self.whole.score(site, role, state)


class Choosing(Method[NoKnobs]):
    """Every site compares its candidates; the chosen model goes up with the candidates' mean Dice."""

    name = CHOOSING

    def __init__(self, study: Study, epochs: int) -> None:
        super().__init__(study)
        self.epochs = epochs

    def roles(self) -> list[Role]:
        return []

    def downlink(self, server: Server, site: str) -> Models:
        """The best of both roles; nothing to a site that has chosen."""
        sent = {GLOBAL: server.deployed(GLOBAL), PERSONAL: server.deployed(f"{PERSONAL}/{site}")}
        done = f"{CHOSEN}/{site}" in server.models
        return {} if done else {name: state for name, state in sent.items() if state is not None}

    def local_update(self, site: SiteRound) -> Models:
        if len(set(site.val.cases)) < site.minimum:
            return {}  # the candidates' Dice would be that of a few patients
        states = self.candidates_of(site)
        dice = [image_dice(site, state) for state in states]
        taken = most_shared(dice)
        told = {"dice": torch.stack([scores.mean() for scores in dice]), "taken": torch.tensor(taken)}
        return {CHOSEN: states[taken], CHOICE: told}

    def uploads(self, server: Server, site: str, sent: Models) -> dict[str, Upload]:
        if PERSONAL not in sent:
            return {}
        told: State = {"dice": torch.zeros(len(CANDIDATES), dtype=torch.float64), "taken": torch.tensor(0)}
        limits = {"dice": (0.0, 1.0), "taken": (0.0, len(CANDIDATES) - 1.0)}
        return {CHOSEN: model(sent[PERSONAL], optional=True),
                CHOICE: Upload(told, most=1.0, optional=True, limits=limits)}

    def candidates_of(self, site: SiteRound) -> list[State]:
        """What the site chooses from, in the order of `CANDIDATES`."""
        own = site.best(PERSONAL) or site.received[PERSONAL]  # the first where only the site holds it
        return [site.received[GLOBAL], own, self._fine_tuned(site, own)]

    def _fine_tuned(self, site: SiteRound, own: State) -> State:
        learner = site.learner(PERSONAL, own)
        best: list[tuple[float, State]] = [(site.dice(own), own)]

        def keep() -> None:
            state = learner.state()
            score = site.dice(state)
            if score > best[0][0]:
                best[0] = score, state

        site.fit([learner], self.epochs, FINE_TUNED, keep)
        return best[0][1]

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        return {f"{name}/{site}": update.models[name] for site, update in updates.items()
                for name in (CHOSEN, CHOICE) if name in update.models}


def with_choices(whole: SuperModel, server: Server) -> SuperModel:
    """The super model with every site's choice in its personalized model's place, and why in the manifest."""
    told = {site: server.models[f"{CHOICE}/{site}"] for site in server.sites if f"{CHOICE}/{site}" in server.models}
    whole.personal = {**whole.personal, **{site: server.models[f"{CHOSEN}/{site}"] for site in told}}
    whole.manifest[CHOSEN] = {
        site: {
            "taken": CANDIDATES[int(each["taken"])],
            "dice": dict(zip(CANDIDATES, each["dice"].tolist(), strict=True)),
        }
        for site, each in told.items()
    }
    return whole


def image_dice(site: SiteRound, state: State) -> torch.Tensor:
    """Dice of every validation image, mean over regions."""
    masks = predict(site.segmentation(state), site.val.images, site.compute) > 0
    return dice_scores(masks, site.val.masks).mean(dim=1)
