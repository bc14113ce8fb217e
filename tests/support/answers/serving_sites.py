"""Sites that use a super model, in this process: what passes between them and the server is kept for the tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedsuper.data.layout import resolve_site
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import Message, SiteFailure
from fedsuper.federation.serving.site import ServingSite

Reply = Message | SiteFailure


class RecordingExchange:
    """Asks each site in turn and remembers every message of both directions."""

    def __init__(self, sites: Mapping[str, ServingSite]) -> None:
        self.workers = dict(sites)
        self.sent: list[tuple[str, str, Message]] = []
        self.replies: list[tuple[str, str, Reply]] = []
        self.lies: dict[str, Reply] = {}

    @property
    def sites(self) -> list[str]:
        return list(self.workers)

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Reply]:
        return {site: self._ask(task, site, message) for site, message in messages.items()}

    def _ask(self, task: str, site: str, message: Message) -> Reply:
        self.sent.append((task, site, message))
        try:
            reply: Reply = self.workers[site].handle(task, message)
        except FedSuperError as problem:
            reply = SiteFailure(str(problem))
        if task != "offer" and site in self.lies:
            reply = self.lies[site]
        self.replies.append((task, site, reply))
        return reply


def serving_site(name: str, root: Path, run: Path, **options: object) -> ServingSite:
    """A site whose inbox is its folder under `root` and whose outbox lies under `run`; it works in this process."""
    inbox = resolve_site(root, name)
    options = {"isolated": False} | options
    return ServingSite(name, inbox, run / name / "outbox", run / name / "serving", **options)  # type: ignore[arg-type]
