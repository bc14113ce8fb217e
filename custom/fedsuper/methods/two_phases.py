"""Selectors that need finished models: train the models, freeze them, then train the selector.

The shared training rounds are FedSM's without a selector. Then come the method's own rounds:

Round 0: the last models are validated, sites finish their personalized models (fine-tuning) and send up those that
only they hold. From here on the K+1 experts are frozen: the best of each on validation data.

Rounds 1 to `extra_rounds`: the selector is trained. The experts travel once, in the first of these rounds, and again
only to a site that was not counted since.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from fedsuper.config import Study
from fedsuper.core.state import Models, State
from fedsuper.methods.base import PERSONAL, SELECTOR, Composite, Method, Role
from fedsuper.methods.fedsm import SuperKnobs, global_and_personal
from fedsuper.methods.selector import Selector
from fedsuper.methods.server import Server, Update
from fedsuper.methods.site import Site
from fedsuper.train.learner import Learner

EXPERT = "expert/"


class TwoPhaseKnobs(SuperKnobs):
    """`extra_rounds` is the paper's delta R (100 + 50 there)."""

    extra_rounds: int = Field(30, ge=1)


class ExpertSelector(Selector):
    """A selector over K+1 experts: output 0 is the global model, output k+1 site k's."""

    def classes(self, sites: int) -> int:
        return sites + 1

    def receive(self, site: Site, experts: list[State]) -> None:
        """Take what is needed from the frozen experts; called once, when they arrive."""
        raise TypeError(f"{type(self).__name__} must define receive")


class TwoPhases(Composite):
    """FedSM's models in the training rounds, `selector` in the rounds after them."""

    Knobs = TwoPhaseKnobs
    keeps = "optimizer state; what the selector needs of the experts"

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        self.selector = self.make_selector()

    def make_selector(self) -> ExpertSelector:
        """The second phase."""
        raise TypeError(f"{type(self).__name__} must define make_selector")

    def compose(self) -> list[Method]:
        return global_and_personal(self.study, self.knobs)

    def rounds(self) -> int:
        return 1 + self.knobs.extra_rounds

    def roles(self) -> list[Role]:
        return super().roles() + self.selector.roles()

    def start(self, server: Server) -> Models:
        return super().start(server) | self.selector.start(server)

    def downlink(self, server: Server, site: str) -> Models:
        if not server.extra:
            return super().downlink(server, site)
        first = server.round - server.extra + 2  # the number of the first round that trains the selector
        known = server.accepted.get(site, 0) >= first
        return self.selector.downlink(server, site) | ({} if known else self.experts(server))

    def experts(self, server: Server) -> Models:
        """The frozen models by class; a site whose personalized model never came is stood in for by the global one."""
        whole = self.super_model(server)
        states = [whole.global_model, *(whole.personal.get(site, whole.global_model) for site in server.sites)]
        return {f"{EXPERT}{index}": state for index, state in enumerate(states) if state is not None}

    def learners(self, site: Site) -> list[Learner]:
        if site.extra is None:
            return super().learners(site)
        return self.selector.learners(site) if site.extra else []

    def local_update(self, site: Site) -> Models:
        if site.extra == 0:
            super().final_update(site)
        self._take_experts(site)
        return super().local_update(site)

    def uplink(self, site: Site, learners: Mapping[str, Learner]) -> Models:
        if site.extra is None:
            return super().uplink(site, learners)
        if site.extra:
            return self.selector.uplink(site, learners)
        found = {role.name: site.best(role.name) for role in self.roles() if role.holder == "site"}
        return {name: state for name, state in found.items() if state is not None}

    def final_update(self, site: Site) -> None:
        """Personalized models were finished before the selector's first round."""

    def candidates(self, site: Site) -> Models:
        return {SELECTOR: site.received[SELECTOR]} if site.extra else super().candidates(site)

    def score(self, site: Site, role: Role, state: State) -> dict[str, float]:
        if role.name != SELECTOR:
            return super().score(site, role, state)
        self._take_experts(site)
        return self.selector.score(site, role, state)

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        if server.extra is None:
            return super().aggregate(server, updates)
        if server.extra:
            return self.selector.aggregate(server, updates)
        sent = {site: update.models for site, update in updates.items() if PERSONAL in update.models}
        return {f"{PERSONAL}/{site}": models[PERSONAL] for site, models in sent.items()}

    def _take_experts(self, site: Site) -> None:
        arrived = [site.received.pop(f"{EXPERT}{index}", None) for index in range(site.classes + 1)]
        experts = [state for state in arrived if state is not None]
        if experts:
            self.selector.receive(site, experts)
