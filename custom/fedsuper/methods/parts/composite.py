"""Several methods side by side, as one method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedsuper.config import Study
from fedsuper.core.state import Models, State
from fedsuper.methods.protocol.method import K, Method
from fedsuper.methods.protocol.role import Role
from fedsuper.methods.protocol.server import Server, Update
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.methods.protocol.upload import Upload
from fedsuper.train.learner import Learner


class Composite(Method[K]):
    """A method made of methods that share the epoch loop: each contributes its roles, learners and rules."""

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        self.parts = self.compose()

    def compose(self) -> list[Method[Any]]:
        """The parts, in the order in which their learners see a batch."""
        raise TypeError(f"{type(self).__name__} must define compose")

    def check(self, sites: Sequence[str]) -> list[str]:
        return [line for part in self.parts for line in part.check(sites)]

    def roles(self) -> list[Role]:
        return [role for part in self.parts for role in part.roles()]

    def start(self, server: Server) -> Models:
        return {key: state for part in self.parts for key, state in part.start(server).items()}

    def no_newcomers(self) -> str | None:
        return next(filter(None, [super().no_newcomers(), *(part.no_newcomers() for part in self.parts)]), None)

    def newcomer(self, server: Server, site: str) -> Models:
        return {key: state for part in self.parts for key, state in part.newcomer(server, site).items()}

    def downlink(self, server: Server, site: str) -> Models:
        return {key: state for part in self.parts for key, state in part.downlink(server, site).items()}

    def learners(self, site: SiteRound) -> list[Learner]:
        return [learner for part in self.parts for learner in part.learners(site)]

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        return {key: state for part in self.parts for key, state in part.uplink(site, learners).items()}

    def uploads(self, server: Server, site: str, sent: Models) -> dict[str, Upload]:
        return {name: one for part in self.parts for name, one in part.uploads(server, site, sent).items()}

    def final_update(self, site: SiteRound) -> None:
        for part in self.parts:
            part.final_update(site)

    def candidates(self, site: SiteRound) -> Models:
        return {key: state for part in self.parts for key, state in part.candidates(site).items()}

    def score(self, site: SiteRound, role: Role, state: State) -> dict[str, float]:
        owner = next(part for part in self.parts if role in part.roles())
        return owner.score(site, role, state)

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        return {key: state for part in self.parts for key, state in part.aggregate(server, updates).items()}
