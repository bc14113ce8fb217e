"""The local engine: every site a worker in this process, or in some processes beside it. For work on one machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fedsuper.config import Study
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.layout import find_sites
from fedsuper.engines.site_crew import ABSENT, ProcessExchange
from fedsuper.errors import FedSuperError
from fedsuper.federation.checkpoints import Resume
from fedsuper.federation.messages import Heard, Message, Rest, SiteFailure, as_it_is, unheard
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
        self.heard: Heard = unheard
        self.threads = threads or min(len(workers), os.cpu_count() or 1)

    @property
    def sites(self) -> list[str]:
        return list(self.workers)

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | SiteFailure]:
        with ThreadPoolExecutor(self.threads) as pool:
            return dict(zip(messages, pool.map(lambda pair: self._one(task, *pair), messages.items()), strict=True))

    def _one(self, task: str, site: str, message: Message) -> Message | SiteFailure:
        if site not in self.workers:
            return ABSENT
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
    """Run a study on this machine; server checkpoints and site state live under `folder`.

    `threads` sites at a time: more than one are served by as many processes, which cost seconds to start and share no
    interpreter. None: this process alone, a thread a core, which is the quickest way through a short study.
    """
    workers = {
        site: SiteWorker(site, Path(data_root), Path(folder) / "sites" / site)
        for site in sites_of(study, Path(data_root))
    }
    server = Path(folder) / "server"
    if min(threads or 1, len(workers)) > 1:
        with ProcessExchange(workers, threads or 1, Path(folder)) as beside:
            return Federation(study, beside, server, progress).run(resume)
    return Federation(study, LocalExchange(workers, threads), server, progress).run(resume)
