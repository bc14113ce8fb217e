"""The method protocol: named models ("roles") and five small functions.

Everything else (epochs, files, sites, wire, validation, checkpoints) is done once, elsewhere, so a method file is
its paper's equations and nothing more. The same object runs in process and on NVFlare and gives the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from fedsuper.config import Strict, Study
from fedsuper.core.state import Models, State
from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.methods.nets import first_segmentation
from fedsuper.methods.server import Server, Update
from fedsuper.methods.site import Site
from fedsuper.train.learner import Learner

PERSONAL = "personal"
SELECTOR = "selector"


@dataclass(frozen=True)
class Role:
    """A named model: who holds it between rounds, whether there is one per site, and what it is."""

    name: str
    holder: Literal["server", "site"] = "server"
    per_site: bool = False
    kind: Literal["segmentation", "selector"] = "segmentation"

    def key(self, site: str) -> str:
        """Its name in the server's store."""
        return f"{self.name}/{site}" if self.per_site else self.name


class NoKnobs(Strict):
    """A method without knobs of its own."""


class Method:
    """Base of every method. The five functions are `roles`, `downlink`, `local_update`, `aggregate`, `super_model`.

    `local_update` is usually left alone and its two halves, `learners` and `uplink`, are written instead.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    travels: ClassVar[str]
    keeps: ClassVar[str] = "optimizer state"
    mode: str = GLOBAL
    pooled: ClassVar[bool] = False
    Knobs: ClassVar[type[Strict]] = NoKnobs

    def __init__(self, study: Study) -> None:
        self.study = study
        self.knobs: Any = self.Knobs.model_validate(study.knobs.get(self.name, {}))

    def check(self, sites: Sequence[str]) -> list[str]:
        """Warnings about knobs that can only be judged once the number of sites is known."""
        return []

    def rounds(self) -> int:
        """Rounds after the shared training rounds (FedSM-extra's second phase)."""
        return 0

    def roles(self) -> list[Role]:
        """The models that exist and who holds each."""
        raise TypeError(f"{type(self).__name__} must define roles")

    def start(self, server: Server) -> Models:
        """The server's models before round 1: every segmentation model it holds starts from the same first weights."""
        first = first_segmentation(self.study, server.task)
        held = [role for role in self.roles() if role.holder == "server" and role.kind == "segmentation"]
        return {role.key(site): first for role in held for site in server.sites}

    def downlink(self, server: Server, site: str) -> Models:
        """What the server sends this site this round."""
        return {role.name: server.models[role.key(site)] for role in self.roles() if role.holder == "server"}

    def learners(self, site: Site) -> list[Learner]:
        """The models the site trains this round, ready to run."""
        return []

    def uplink(self, site: Site, learners: Mapping[str, Learner]) -> Models:
        """What the site sends back, from its trained learners by role; also the place to keep site-held models."""
        return {}

    def returned(self, name: str, sent: State) -> State:
        """What must come back of an entry that was sent down, for the server's check: all of it."""
        return sent

    def local_update(self, site: Site) -> Models:
        """A site's round: train all learners on the same batches, send what travels."""
        learners = self.learners(site)
        if learners:
            site.fit(learners)
        return self.uplink(site, {learner.role: learner for learner in learners})

    def final_update(self, site: Site) -> None:
        """Work a site does once, after the last round (fine-tuning)."""

    def candidates(self, site: Site) -> Models:
        """The models that would be deployed at this site as things stand, by role; they are validated each round."""
        found = dict(site.received)
        for role in self.roles():
            if role.holder == "site" and role.name in site.store.models:
                found[role.name] = site.store.models[role.name]
        return {role.name: found[role.name] for role in self.roles() if role.name in found}

    def score(self, site: Site, role: Role, state: State) -> dict[str, float]:
        """Validation numbers of a candidate; `val/<role>` decides which model is kept, higher is better."""
        if role.kind == SELECTOR:
            scores = site.selector_scores(state)
            return {f"val/{role.name}": scores["accuracy"], f"val-loss/{role.name}": scores["loss"]}
        return {f"val/{role.name}": site.dice(state)}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        """A pure function: the round's updates (in label order) to the server's new entries."""
        return {}

    def super_model(self, server: Server) -> SuperModel:
        """What is handed over: the best of every role on validation data.

        A site that never took part has no personalized model: its first weights are no model to choose. Where every
        site is meant to use its own (`own`), the global model stands in for one that is missing.
        """
        names = {role.name for role in self.roles()}
        global_model = server.deployed(GLOBAL) if GLOBAL in names else None
        personal = {site: server.deployed(f"{PERSONAL}/{site}") for site in server.sites if site in server.accepted}
        if self.mode == "own" and global_model is not None:
            personal = {site: personal.get(site) or global_model for site in server.sites}
        return SuperModel(
            sites=list(server.sites),
            global_model=global_model,
            personal={site: state for site, state in personal.items() if state is not None},
            selector=server.deployed(SELECTOR) if SELECTOR in names else None,
            mode=self.mode,
        )


class Composite(Method):
    """A method made of methods that share the epoch loop: each contributes its roles, learners and rules."""

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        self.parts = self.compose()

    def compose(self) -> list[Method]:
        """The parts, in the order in which their learners see a batch."""
        raise TypeError(f"{type(self).__name__} must define compose")

    def check(self, sites: Sequence[str]) -> list[str]:
        return [line for part in self.parts for line in part.check(sites)]

    def rounds(self) -> int:
        return max(part.rounds() for part in self.parts)

    def roles(self) -> list[Role]:
        return [role for part in self.parts for role in part.roles()]

    def start(self, server: Server) -> Models:
        return {key: state for part in self.parts for key, state in part.start(server).items()}

    def downlink(self, server: Server, site: str) -> Models:
        return {key: state for part in self.parts for key, state in part.downlink(server, site).items()}

    def learners(self, site: Site) -> list[Learner]:
        return [learner for part in self.parts for learner in part.learners(site)]

    def uplink(self, site: Site, learners: Mapping[str, Learner]) -> Models:
        return {key: state for part in self.parts for key, state in part.uplink(site, learners).items()}

    def final_update(self, site: Site) -> None:
        for part in self.parts:
            part.final_update(site)

    def candidates(self, site: Site) -> Models:
        return {key: state for part in self.parts for key, state in part.candidates(site).items()}

    def score(self, site: Site, role: Role, state: State) -> dict[str, float]:
        owner = next(part for part in self.parts if role in part.roles())
        return owner.score(site, role, state)

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        return {key: state for part in self.parts for key, state in part.aggregate(server, updates).items()}
