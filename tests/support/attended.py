"""The unbroken run that a run with faults is held to: in one process, with the same attendance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedsuper.config import Study
from fedsuper.engines.in_process import LocalExchange
from fedsuper.federation.messages import FINISH, TRAIN, Message, SiteFailure
from fedsuper.federation.progress import Silent
from fedsuper.federation.server_loop import Federation
from fedsuper.federation.site_worker import SiteWorker
from fedsuper.inference.artifact import save_super_model


class Attended(LocalExchange):
    """The in-process engine's exchange, where each site misses the rounds that it missed in another run, and comes in
    the round in which it joined that."""

    def __init__(self, workers: dict[str, SiteWorker], missing: list[list[str]], joined: Mapping[str, int]) -> None:
        super().__init__(workers)
        self.missing = missing
        self.joined = joined
        self.coming = 1  # the next round

    @property
    def sites(self) -> list[str]:
        return [site for site in self.workers if self.joined.get(site, 1) <= self.coming]

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | SiteFailure]:
        number = next(iter(messages.values())).info.get("round", 0)
        self.coming = number + 2 if task == TRAIN else self.coming
        away = self.missing[number] if task in (TRAIN, FINISH) else []
        replies = super().__call__(task, {site: each for site, each in messages.items() if site not in away}, timeout)
        return replies | {site: SiteFailure("missed it") for site in messages if site in away}


def unbroken(study: Study, roots: Mapping[str, Path], missing: list[list[str]], folder: Path,
             joined: Mapping[str, int] | None = None) -> None:
    """Train under `folder`, each site from its data root, and leave the super model in `folder/supermodel`.

    `missing` names who misses each round, and the last entry the final validation, as a super model's history has it;
    `joined` the first round of those who were not there from the beginning.
    """
    workers = {site: SiteWorker(site, root, folder / "sites" / site) for site, root in roots.items()}
    super_model = Federation(study, Attended(workers, missing, joined or {}), folder / "server", Silent()).run()
    save_super_model(super_model, folder / "supermodel")
