"""Sites in worker processes beside the server's: the same bits as in one process, on as many cores as are asked for.

A worker process serves some of the sites, always the same ones, so that their prepared samples stay in its memory; what
matters lies in the sites' folders. The server's process writes each message to a file, as it does for a site's child on
NVFlare (`federation.site_process`), and the same code answers. Sites are dealt out by their number of images, the
largest first, each to the process that has the least to do.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType

from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import Heard, Message, Rest, SiteFailure, as_it_is, unheard
from fedsuper.federation.site_process import SiteProcess
from fedsuper.federation.site_worker import SiteWorker

ABSENT = SiteFailure("it is not connected: its folder is not in the data root", absent=True)


class ProcessExchange:
    """The server's way to its sites; a `with` block ends the processes, whatever happened in it."""

    def __init__(self, workers: Mapping[str, SiteWorker], count: int, logs: Path) -> None:
        self.rest: Rest = as_it_is
        self.heard: Heard = unheard
        self._stop = threading.Event()
        self._order = list(workers)
        self.shares = dealt({site: _images(worker) for site, worker in workers.items()}, count)
        self._processes = []
        for number, share in enumerate(self.shares, 1):
            first, *others = (workers[site] for site in share)
            self._processes.append(SiteProcess(first, logs / f"worker-{number}", others, openly=True))

    @property
    def sites(self) -> list[str]:
        return list(self._order)

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | SiteFailure]:
        found: dict[str, Message | SiteFailure] = dict.fromkeys(messages, ABSENT)

        def serve(number: int) -> None:
            for place, site in enumerate(self.shares[number]):
                if site in messages and not self._stop.is_set():
                    found[site] = self._one(number, place, task, messages[site], timeout)

        with ThreadPoolExecutor(len(self.shares)) as pool:
            try:
                coming = [pool.submit(serve, number) for number in range(len(self.shares))]
                for one in wait(coming, return_when=FIRST_EXCEPTION).done:
                    one.result()
            except BaseException:  # Ctrl-C: nobody waits for an answer any more
                self._stop.set()
                raise
        return found

    def _one(self, number: int, place: int, task: str, message: Message, timeout: float) -> Message | SiteFailure:
        try:
            reply = self._processes[number].handle(task, message, timeout, self._stop.is_set, place)
            reply.models = {role: self.rest(state) for role, state in reply.models.items()}
            return reply
        except FedSuperError as problem:
            return SiteFailure(str(problem))

    def __enter__(self) -> ProcessExchange:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
                 ) -> None:
        self._stop.set()
        for process in self._processes:
            process.end()


def dealt(sizes: Mapping[str, int], count: int) -> list[list[str]]:
    """The sites of every process: the largest site first, each to the process with the fewest images so far."""
    shares: list[list[str]] = [[] for _ in range(min(count, len(sizes)))]
    load = [0] * len(shares)
    for site in sorted(sizes, key=lambda name: (-sizes[name], name)):
        place = load.index(min(load))
        shares[place].append(site)
        load[place] += max(1, sizes[site])
    return shares


def _images(worker: SiteWorker) -> int:
    folder = Path(worker.data_root) / worker.name / "images"
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0
