"""The in-process engine: every site a worker in this process. For tests, debugging and comparisons on one machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fedsuper.config import Study
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.layout import find_sites
from fedsuper.errors import FedSuperError
from fedsuper.federation.checkpoints import Resume
from fedsuper.federation.messages import Message, Rest, SiteFailure, as_it_is
from fedsuper.federation.progress import Progress
from fedsuper.federation.server_loop import Federation
from fedsuper.federation.site_data import POOLED_SITE
from fedsuper.federation.site_worker import SiteWorker
from fedsuper.methods import method_class


def sites_of(study: Study, data_root: Path) -> list[str]:
    """The sites of a study on a data root: its folders, or the one pseudo-site that pools them."""
    folders = find_sites(data_root)
    return [POOLED_SITE] if method_class(study.method).pooled else folders


class LocalExchange:
    """Calls the workers side by side in threads (torch releases the interpreter while it computes)."""

    def __init__(self, workers: dict[str, SiteWorker], threads: int | None = None) -> None:
        self.workers = workers
        self.rest: Rest = as_it_is
        self.threads = threads or min(len(workers), os.cpu_count() or 1)

    @property
    def sites(self) -> list[str]:
        return list(self.workers)

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | SiteFailure]:
        with ThreadPoolExecutor(self.threads) as pool:
            return dict(zip(messages, pool.map(lambda pair: self._one(task, *pair), messages.items()), strict=True))

    def _one(self, task: str, site: str, message: Message) -> Message | SiteFailure:
        if site not in self.workers:
            return SiteFailure("it is not connected: its folder is not in the data root", absent=True)
        try:
            reply = self.workers[site].handle(task, message)
            reply.models = {role: self.rest(state) for role, state in reply.models.items()}
            return reply
        except FedSuperError as problem:
            return SiteFailure(str(problem))


def run_local(
    study: Study, data_root: Path, folder: Path, progress: Progress, threads: int | None = None,
    resume: bool | Resume = False,
) -> SuperModel:
    """Run a study in this process; server checkpoints and site state live under `folder`."""
    workers = {
        site: SiteWorker(site, Path(data_root), Path(folder) / "sites" / site)
        for site in sites_of(study, Path(data_root))
    }
    exchange = LocalExchange(workers, threads)
    return Federation(study, exchange, Path(folder) / "server", progress).run(resume)
