"""The method protocol: named models ("roles") and five small functions.

Everything else (epochs, files, sites, wire, validation, checkpoints) is done once, elsewhere, so a method file is
its paper's equations and nothing more. The same object runs in process and on NVFlare and gives the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, cast

from typing_extensions import TypeVar

from fedsuper.config import Strict, Study
from fedsuper.core.aggregate import weighted_mean
from fedsuper.core.mode import OWN
from fedsuper.core.state import Models, State
from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.methods.protocol.calibration import Trial
from fedsuper.methods.protocol.nets import first_segmentation
from fedsuper.methods.protocol.phases import TRAINING_ONLY, Phase
from fedsuper.methods.protocol.role import PERSONAL, SELECTOR, Role
from fedsuper.methods.protocol.server import Server, Update, average
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.methods.protocol.upload import Upload, model
from fedsuper.train.learner import Learner


class NoKnobs(Strict):
    """A method without knobs of its own."""


K = TypeVar("K", bound=Strict, default=NoKnobs)


class Method(Generic[K]):
    """Base of every method. The five functions are `roles`, `downlink`, `local_update`, `aggregate`, `super_model`.

    `local_update` is usually left alone and its two halves, `learners` and `uplink`, are written instead.
    Knobs are named twice: `class FT(Personalized[FTKnobs])` for the type checker, `Knobs = FTKnobs` for the study.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    travels: ClassVar[str]
    keeps: ClassVar[str] = "optimizer state"
    mode: str = GLOBAL
    pooled: ClassVar[bool] = False
    Knobs: ClassVar[type[Strict]] = NoKnobs
    Calibration: ClassVar[type[Strict]] = NoKnobs  # what `calibrate` may tell

    def __init__(self, study: Study) -> None:
        self.study = study
        self.knobs = cast(K, self.Knobs.model_validate(study.knobs.get(self.name, {})))

    def check(self, sites: Sequence[str]) -> list[str]:
        """Warnings about knobs that can only be judged once the number of sites is known."""
        return []

    def phases(self) -> Sequence[Phase]:
        """The stretches of rounds, in order; the first is the study's training rounds."""
        return TRAINING_ONLY

    def during(self, phase: str) -> Method[Any]:
        """Who acts in a phase: downlink, local update, candidates, scores and aggregation are asked of it."""
        return self

    def roles(self) -> list[Role]:
        """The models that exist and who holds each."""
        raise TypeError(f"{type(self).__name__} must define roles")

    def start(self, server: Server) -> Models:
        """The server's models before round 1: every segmentation model it holds starts from the same first weights."""
        first = first_segmentation(self.study, server.task)
        held = [role for role in self.roles() if role.holder == "server" and role.kind == "segmentation"]
        return {role.key(site): first for role in held for site in server.sites}

    def no_newcomers(self) -> str | None:
        """Why no site can join a running study of this method; None where one can."""
        if self.pooled:
            return f"{self.name} has one pool of data"
        return f"the later phases of {self.name} count on the sites of its first" if len(self.phases()) > 1 else None

    def newcomer(self, server: Server, site: str) -> Models:
        """The server's new entries for a site that joins: its own models begin as the global one, where there is none
        as the uniform mean of the others'."""
        begun: Models = {}
        for role in self.roles():
            if role.holder == "server" and role.per_site:
                others = [server.models[role.key(other)] for other in server.sites if role.key(other) in server.models]
                begun[role.key(site)] = server.models.get(GLOBAL) or weighted_mean(others, [1.0] * len(others))
        return begun

    def downlink(self, server: Server, site: str) -> Models:
        """What the server sends this site this round."""
        return {role.name: server.models[role.key(site)] for role in self.roles() if role.holder == "server"}

    def learners(self, site: SiteRound) -> list[Learner]:
        """The models the site trains this round, ready to run."""
        return []

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        """What the site sends back, from its trained learners by role; also the place to keep site-held models."""
        return {}

    def uploads(self, server: Server, site: str, sent: Models) -> dict[str, Upload]:
        """What must come up from this site this round, and nothing else: every server-held model that was sent."""
        held = [role.name for role in self.roles() if role.holder == "server"]
        return {name: model(sent[name]) for name in held if name in sent}

    def local_update(self, site: SiteRound) -> Models:
        """A site's round: train all learners on the same batches, send what travels."""
        learners = self.learners(site)
        if learners:
            site.fit(learners)
        return self.uplink(site, {learner.role: learner for learner in learners})

    def final_update(self, site: SiteRound) -> None:
        """Work a site does once, after the last round (fine-tuning)."""

    def candidates(self, site: SiteRound) -> Models:
        """The models that would be deployed at this site as things stand, by role; they are validated each round."""
        found = dict(site.received)
        for role in self.roles():
            if role.holder == "site" and role.name in site.store.models:
                found[role.name] = site.store.models[role.name]
        return {role.name: found[role.name] for role in self.roles() if role.name in found}

    def score(self, site: SiteRound, role: Role, state: State) -> dict[str, float]:
        """Validation numbers of a candidate; `val/<role>` decides which model is kept, higher is better.

        `val-region/<role>/<region>` are the regions behind it, told where there are several.
        """
        if role.kind == SELECTOR:
            scores = site.selector_scores(state)
            return {f"val/{role.name}": scores["accuracy"], f"val-loss/{role.name}": scores["loss"]}
        by_region = site.region_dice(state)
        told = zip(site.task.regions, by_region.tolist(), strict=True) if len(by_region) > 1 else ()
        return {f"val/{role.name}": float(by_region.mean())} | {f"val-region/{role.name}/{r}": dice for r, dice in told}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        """A pure function: the round's updates (in label order) to the server's new entries."""
        return {}

    def mean(self, updates: dict[str, Update], role: str, uniform: bool = False) -> State | None:
        """The average of a role's uploads, by the study's rule (`federation.robust`)."""
        return average(updates, role, uniform, self.study.federation.robust)

    def calibrate(self, trial: Trial) -> dict[str, Any]:
        """What a site tells of the finished super model on its validation data: sums over images, plain JSON."""
        return {}

    def settle(self, told: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """What the sites' calibrations add to the super model's manifest."""
        return {}

    def super_model(self, server: Server) -> SuperModel:
        """What is handed over: the best of every role on validation data.

        A site that never took part has no personalized model: its first weights are no model to choose. Where every
        site is meant to use its own (`own`), the global model stands in for one that is missing.
        """
        names = {role.name for role in self.roles()}
        global_model = server.deployed(GLOBAL) if GLOBAL in names else None
        personal = {site: server.deployed(f"{PERSONAL}/{site}") for site in server.sites if site in server.accepted}
        if self.mode == OWN and global_model is not None:
            personal = {site: personal.get(site) or global_model for site in server.sites}
        return SuperModel(
            sites=list(server.sites),
            global_model=global_model,
            personal={site: state for site, state in personal.items() if state is not None},
            selector=server.deployed(SELECTOR) if SELECTOR in names else None,
            mode=self.mode,
        )
