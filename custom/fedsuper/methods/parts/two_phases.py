"""Selectors that need finished models: train the models, freeze them, then train the selector.

Phase `training`: FedSM's rounds without a selector.

Phase `freezing`, one round: the last models are validated, sites finish their personalized models (fine-tuning) and
send up those that only they hold. From here on the K+1 experts are frozen: the best of each on validation data.

Phase `selecting`, `extra_rounds`: the selector is trained. The experts travel once, in the first of these rounds, and
again only to a site that was not counted since.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from pydantic import Field

from fedsuper.config import Study
from fedsuper.core.state import Models, State
from fedsuper.core.supermodel import SuperModel
from fedsuper.methods.fedsm import SuperKnobs, global_and_personal
from fedsuper.methods.parts.composite import Composite
from fedsuper.methods.parts.own_pull import with_shares
from fedsuper.methods.parts.selector import Selector
from fedsuper.methods.protocol.method import Method, NoKnobs
from fedsuper.methods.protocol.nets import first_segmentation
from fedsuper.methods.protocol.phases import Phase
from fedsuper.methods.protocol.role import PERSONAL, Role
from fedsuper.methods.protocol.server import TRAINING, Server, Update
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.methods.protocol.upload import Upload, model

EXPERT = "expert/"
FREEZING, SELECTING = "freezing", "selecting"


class TwoPhaseKnobs(SuperKnobs):
    """`extra_rounds` is the paper's delta R (100 + 50 there).

    The default is three times that: with `selector.optimizer: server-adam` a round is one step of the selector, where
    the paper takes one a batch.
    """

    extra_rounds: int = Field(150, ge=1)


class ExpertSelector(Selector):
    """A selector over K+1 frozen experts: output 0 is the global model, output k+1 site k's."""

    def __init__(self, study: Study, experts: Callable[[Server], Models]) -> None:
        super().__init__(study)
        self.experts = experts

    def classes(self, sites: int) -> int:
        return sites + 1

    def receive(self, site: SiteRound, experts: list[State]) -> None:
        """Take what is needed from the frozen experts; called once, when they arrive."""
        raise TypeError(f"{type(self).__name__} must define receive")

    def downlink(self, server: Server, site: str) -> Models:
        known = server.accepted.get(site, 0) > server.phase_start
        return super().downlink(server, site) | ({} if known else self.experts(server))

    def candidates(self, site: SiteRound) -> Models:
        self._take_experts(site)  # a selector is scored by what its experts reach
        return super().candidates(site)

    def local_update(self, site: SiteRound) -> Models:
        self._take_experts(site)
        return super().local_update(site)

    def _take_experts(self, site: SiteRound) -> None:
        arrived = [site.received.pop(f"{EXPERT}{index}", None) for index in range(self.classes(site.classes))]
        experts = [state for state in arrived if state is not None]
        if experts:
            self.receive(site, experts)


class Trained(Composite[NoKnobs]):
    """FedSM's global and personalized models, without a selector."""

    name = "trained"

    def __init__(self, study: Study, knobs: SuperKnobs) -> None:
        self.chosen = knobs
        super().__init__(study)

    def compose(self) -> list[Method[Any]]:
        return global_and_personal(self.study, self.chosen)


class Freezing(Trained):
    """The round in which sites finish the models, and send up those that only they hold."""

    name = "freezing"

    def local_update(self, site: SiteRound) -> Models:
        self.final_update(site)
        found = {role.name: site.best(role.name) for role in self.roles() if role.holder == "site"}
        return {name: state for name, state in found.items() if state is not None}

    def uploads(self, server: Server, site: str, sent: Models) -> dict[str, Upload]:
        """Those that only the site holds; one that came too late to have any sends none."""
        first = first_segmentation(self.study, server.task)
        return {role.name: model(first, optional=True) for role in self.roles() if role.holder == "site"}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        sent = {site: update.models for site, update in updates.items() if PERSONAL in update.models}
        return {f"{PERSONAL}/{site}": models[PERSONAL] for site, models in sent.items()}


class TwoPhases(Method[TwoPhaseKnobs]):
    """FedSM's models in the training rounds, a selector over them in the rounds after."""

    Knobs = TwoPhaseKnobs
    keeps = "optimizer state; what the selector needs of the experts"
    selector_kind: ClassVar[type[ExpertSelector]]

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        self.trained = Trained(study, self.knobs)
        self.freezing = Freezing(study, self.knobs)
        self.selector = self.selector_kind(study, self.experts)

    def phases(self) -> Sequence[Phase]:
        return [Phase(TRAINING), Phase(FREEZING, 1), Phase(SELECTING, self.knobs.extra_rounds)]

    def during(self, phase: str) -> Method[Any]:
        acting: dict[str, Method[Any]] = {TRAINING: self.trained, FREEZING: self.freezing, SELECTING: self.selector}
        return acting[phase]

    def check(self, sites: Sequence[str]) -> list[str]:
        return self.trained.check(sites)

    def roles(self) -> list[Role]:
        return self.trained.roles() + self.selector.roles()

    def start(self, server: Server) -> Models:
        return self.trained.start(server) | self.selector.start(server)

    def super_model(self, server: Server) -> SuperModel:
        return with_shares(super().super_model(server), server)

    def experts(self, server: Server) -> Models:
        """The frozen models by class; a site whose personalized model never came is stood in for by the global one."""
        whole = self.super_model(server)
        states = [whole.global_model, *(whole.personal.get(site, whole.global_model) for site in server.sites)]
        return {f"{EXPERT}{index}": state for index, state in enumerate(states) if state is not None}
