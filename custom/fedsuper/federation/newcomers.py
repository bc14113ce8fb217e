"""Sites that were not there when a study began and join it at a round's end (`federation.newcomers: welcome`).

A newcomer gets the last label, so nobody's changes. It begins with what the method has for one (`Method.newcomer`: a
personalized model begins as the global one), and the best shared models are chosen anew from then on: those so far were
chosen without its validation images, and a hard newcomer would otherwise never see a model that learned from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

from fedsuper.config import Study
from fedsuper.errors import FedSuperError
from fedsuper.federation.door.replies import DescribeReply
from fedsuper.methods.protocol.method import Method
from fedsuper.methods.protocol.server import Server

JOINED = "joined"  # in the server's values and in the manifest: the first round of every newcomer


class Newcomers:
    """Who may come in and what that changes at the server; `note` hears of everyone once."""

    def __init__(self, study: Study, method: Method[Any], note: Callable[[str], None]) -> None:
        self.method = method
        self.note = note
        self.welcome = study.federation.newcomers == "welcome"
        self._sent_away: set[str] = set()
        problem = method.no_newcomers() if self.welcome else None
        if problem is not None:
            raise FedSuperError(f"federation.newcomers: welcome does not go with this study: {problem}; leave it out")

    def arrived(self, server: Server, there: Iterable[str], counted: Set[str]) -> dict[str, bool]:
        """Who is there and not `counted` yet, and whether the study knows it; strangers in the order of labels."""
        there = set(there)
        strangers = sorted(there - set(server.sites) - counted)
        if not self.welcome:
            for site in strangers:
                if site not in self._sent_away:
                    self._sent_away.add(site)
                    self.note(f"{site}: is there but no part of this study; federation.newcomers: welcome takes it in")
            strangers = []
        known = [site for site in server.sites if site in there and site not in counted]
        return dict.fromkeys(known, True) | dict.fromkeys(strangers, False)

    def join(self, server: Server, described: Mapping[str, DescribeReply]) -> None:
        """Take in the strangers of those who described themselves and fit."""
        strangers = {site: told for site, told in described.items() if site not in server.sites}
        for site, told in strangers.items():
            begun = self.method.newcomer(server, site)
            server.models |= begun
            # What was rounded off a model on its way down is none of one that has grown.
            server.carry = {key: rest for key, rest in server.carry.items() if key.partition(":")[2] not in begun}
            server.sites = [*server.sites, site]
            server.samples = {**server.samples, site: told.samples["train"]}
            server.values["described"][site] = told.model_dump()
            server.values.setdefault(JOINED, {})[site] = server.round + 1
            self.note(f"{site}: joins the study in round {server.round + 1}")
        if strangers:
            for role in self.method.roles():
                if not role.per_site:
                    server.best.pop(role.name, None)
                    server.best_models.pop(role.name, None)
            for chosen_without in ("progress", "best_median"):
                server.values.pop(chosen_without, None)


def joined(server: Server) -> dict[str, Any]:
    """For the manifest."""
    return {JOINED: server.values[JOINED]} if JOINED in server.values else {}
