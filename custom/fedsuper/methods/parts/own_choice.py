"""No site is worse off: after training, each site takes one of four models (`personal: auto`).

Candidates: the global model fine-tuned at home (`parts.fine_tuned`), the global model, the site's personalized model,
and that one fine-tuned. The first is the usual one, the most shared that has seen the site's images alone, and is left
for a clear lead only. Global and personalized model are the best of all rounds on validation data. Which one a site
takes is decided over all sites, by means and covariances (`core.validated.candidate_choice`). So that validation images
can tell the candidates apart, none is judged by images that made it look good: nothing of the fine-tuning is chosen by
them, and for the personalized model, picked among rounds by a few images of one site, the one of the last round stands
in. (The global model was picked by all sites' images.)

Three rounds after training: `last-look`, in which the last models are scored, `trying`, in which sites make their
candidates and tell how they did, and `choosing`, in which each hears which to take and sends it up. A site that misses
one of the last two keeps its personalized model; one with too few patients to speak of takes what serves all the
others best.
"""

from __future__ import annotations

from typing import Any

import torch

from fedsuper.config import Study
from fedsuper.core.metrics import dice_scores
from fedsuper.core.state import Models, State
from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.core.validated.candidate_choice import WIDEST, Choice, Figures, choose, patient_means
from fedsuper.methods.parts.fine_tuned import fine_tuned
from fedsuper.methods.protocol.method import Method, NoKnobs
from fedsuper.methods.protocol.nets import first_segmentation
from fedsuper.methods.protocol.phases import Phase
from fedsuper.methods.protocol.role import PERSONAL, Role
from fedsuper.methods.protocol.server import Server, Update
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.methods.protocol.upload import Upload, model
from fedsuper.train.loop import predict

LAST_LOOK, TRYING, CHOOSING = "last-look", "trying", "choosing"
PHASES = (Phase(LAST_LOOK, 1), Phase(TRYING, 1), Phase(CHOOSING, 1))
CANDIDATE, FIGURES, CHOICE, CHOSEN = "candidate", "candidate-dice", "choice", "chosen"
LAST = f"last/{PERSONAL}"  # in a site's store
CANDIDATES = (f"fine-tuned-{GLOBAL}", GLOBAL, PERSONAL, f"fine-tuned-{PERSONAL}")  # in the order of preference


class LastLook(Method[NoKnobs]):
    """Scores the models of the last training round, so that the best of all rounds is known. Nothing is trained.

    The site keeps its last personalized model, which no validation image has picked.
    """

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

    def local_update(self, site: SiteRound) -> Models:
        site.store.models[LAST] = self.whole.candidates(site)[PERSONAL]
        return {}


class Trying(Method[NoKnobs]):
    """Every site makes its candidates, keeps them, and tells mean and covariance of their Dice over patients."""

    name = TRYING

    def __init__(self, study: Study, epochs: int) -> None:
        super().__init__(study)
        self.epochs = epochs

    def roles(self) -> list[Role]:
        return []

    def downlink(self, server: Server, site: str) -> Models:
        """The best of both roles."""
        sent = {GLOBAL: server.deployed(GLOBAL), PERSONAL: server.deployed(f"{PERSONAL}/{site}")}
        return {name: state for name, state in sent.items() if state is not None}

    def local_update(self, site: SiteRound) -> Models:
        made, last = self.candidates_of(site), site.store.models.pop(LAST, None)
        site.store.models |= {f"{CANDIDATE}/{name}": state for name, state in made.items()}
        if len(set(site.val.cases)) < site.minimum:
            return {}  # the candidates' Dice would be that of a few patients
        judged = made | {PERSONAL: last or made[PERSONAL]}
        told = Figures.of(torch.stack([patient_dice(site, state) for state in judged.values()]))
        return {FIGURES: _packed(told)}

    def candidates_of(self, site: SiteRound) -> Models:
        """What the site chooses from, in the order of `CANDIDATES`."""
        own = site.best(PERSONAL) or site.received[PERSONAL]  # the first where only the site holds it
        tuned_own = fine_tuned(site, own, self.epochs)
        tuned = fine_tuned(site, site.received[GLOBAL], self.epochs, anew=True)
        return dict(zip(CANDIDATES, (tuned, site.received[GLOBAL], own, tuned_own), strict=True))

    def uploads(self, server: Server, site: str, sent: Models) -> dict[str, Upload]:
        count = len(CANDIDATES)
        like = _packed(Figures([0.0] * count, [[0.0] * count] * count, 1))
        described = server.values.get("described", {}).get(site)
        images = float(described["samples"]["val"]) if described else float("inf")
        limits = {"mean": (0.0, 1.0), "spread": (-WIDEST, WIDEST), "count": (1.0, images)}
        return {FIGURES: Upload(like, least=-WIDEST, most=1.0, optional=True, limits=limits)}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        return {f"{FIGURES}/{site}": update.models[FIGURES] for site, update in updates.items()
                if FIGURES in update.models}


class Choosing(Method[NoKnobs]):
    """Every site hears which of its candidates it takes, and sends that one up."""

    name = CHOOSING

    def roles(self) -> list[Role]:
        return []

    def downlink(self, server: Server, site: str) -> Models:
        """Nothing to a site that has chosen, or where nobody told anything."""
        taken = choices(server).get(site)
        done = taken is None or f"{CHOSEN}/{site}" in server.models
        return {} if done else {CHOICE: {"taken": torch.tensor(taken)}}

    def local_update(self, site: SiteRound) -> Models:
        made = {name: site.store.models.pop(f"{CANDIDATE}/{name}", None) for name in CANDIDATES}
        taken = made[CANDIDATES[int(site.received[CHOICE]["taken"])]] if CHOICE in site.received else None
        return {} if taken is None else {CHOSEN: taken}

    def uploads(self, server: Server, site: str, sent: Models) -> dict[str, Upload]:
        return {CHOSEN: model(first_segmentation(self.study, server.task), optional=True)}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        return {f"{CHOSEN}/{site}": update.models[CHOSEN] for site, update in updates.items()
                if CHOSEN in update.models}


def acting(phase: str, whole: Method[Any], epochs: int) -> Method[Any]:
    """Who acts in a phase: the whole method in its own."""
    if phase == LAST_LOOK:
        return LastLook(whole.study, whole)
    if phase == TRYING:
        return Trying(whole.study, epochs)
    return Choosing(whole.study) if phase == CHOOSING else whole


def choices(server: Server) -> dict[str, int]:
    """The candidate of every site: the common one where a site told nothing; nothing where nobody did."""
    found = _choice(server)
    if found is None:
        return {}
    own = dict(zip(figures(server), found.taken, strict=True))
    return {site: own.get(site, found.common) for site in server.sites}


def with_choices(whole: SuperModel, server: Server) -> SuperModel:
    """The super model with every site's choice in its personalized model's place, and why in the manifest."""
    found, told, taken = _choice(server), figures(server), choices(server)
    chosen = {site: server.models[f"{CHOSEN}/{site}"] for site in taken if f"{CHOSEN}/{site}" in server.models}
    whole.personal = {**whole.personal, **chosen}
    whole.manifest[CHOSEN] = {}
    for site in chosen if found else ():
        own = told.get(site)
        whole.manifest[CHOSEN][site] = {
            "taken": CANDIDATES[taken[site]],
            "why": _why(found, list(told).index(site)) if found and own else "serves the other sites best",
            "dice": dict(zip(CANDIDATES, own.mean, strict=True)) if own else {},
        }
    return whole


def patient_dice(site: SiteRound, state: State) -> torch.Tensor:
    """Dice of every validation patient, the mean over images and regions."""
    return patient_means(image_dice(site, state), site.val.cases)


def image_dice(site: SiteRound, state: State) -> torch.Tensor:
    """Dice of every validation image, mean over regions."""
    masks = predict(site.segmentation(state), site.val.images, site.compute) > 0
    return dice_scores(masks, site.val.masks).mean(dim=1)


def figures(server: Server) -> dict[str, Figures]:
    """The figures of every site that told them, in label order."""
    kept = {site: server.models.get(f"{FIGURES}/{site}") for site in server.sites}
    return {site: Figures(state["mean"].tolist(), state["spread"].tolist(), int(state["count"]))
            for site, state in kept.items() if state is not None}


def _choice(server: Server) -> Choice | None:
    told = figures(server)
    return choose(list(told.values())) if told else None


def _packed(told: Figures) -> State:
    return {"mean": torch.tensor(told.mean, dtype=torch.float64),
            "spread": torch.tensor(told.spread, dtype=torch.float64), "count": torch.tensor(told.count)}


def _why(choice: Choice, at: int) -> str:
    if choice.taken[at] == choice.common:
        return "serves the sites best on average, and here nothing is clearly better"
    common = CANDIDATES[choice.common]
    return f"better here than {common} by {choice.lead[at]:.3f}, {choice.lead[at] / choice.error[at]:.1f} errors"
