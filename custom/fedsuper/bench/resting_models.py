"""Memory of a server of many sites: models in memory against models at rest on disk (`federation.models`).

A round as the server sees it: K answers of two models arrive, the personalized models are pulled, and all are kept as
the best so far. Counted is memory that nobody but this process can give back (`RssAnon`): pages of mapped files are the
kernel's to drop. It is sampled while the round runs, above what was held before the first answer.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Sequence
from pathlib import Path

import torch

from fedsuper.bench.peak_memory import MEGABYTE, resident_megabytes
from fedsuper.config import Study
from fedsuper.core.state import room_for_models
from fedsuper.core.supermodel import GLOBAL
from fedsuper.data.task import Task
from fedsuper.engines.flare.contact.memory import give_back
from fedsuper.federation.resting import Disk
from fedsuper.methods import create_method
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.methods.protocol.server import Server, Update

PERIOD = 0.005  # seconds between two looks
LARGE_SITES, LARGE_NET, LARGE_MEMORY = 384, 120.0, 8000.0  # what must fit: sites, megabytes a model, megabytes


class Watched:
    """The most anonymous memory seen since it was entered, in megabytes above what was held then."""

    def __enter__(self) -> Watched:
        gc.collect()
        give_back()  # what was freed before would be used again and not be seen
        self.before = self.most = resident_megabytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def rise(self) -> float:
        """Megabytes."""
        return self.most - self.before

    def look(self) -> None:
        """One sample."""
        self.most = max(self.most, resident_megabytes())

    def _watch(self) -> None:
        while not self._done.wait(PERIOD):
            self.look()


def round_megabytes(study: Study, task: Task, count: int, folder: Path | None) -> tuple[float, float]:
    """Anonymous megabytes of a round of `count` sites, in memory or at rest in `folder`, and those of one model."""
    method = create_method(study)
    sites = [f"site-{index:03d}" for index in range(count)]
    server = Server(study, task, sites, dict.fromkeys(sites, 10))
    server.models = method.start(server)
    first = server.models[GLOBAL]
    disk = None if folder is None else Disk(folder)
    random = torch.Generator().manual_seed(0)
    with Watched() as watched, room_for_models(disk.blank if disk else None):
        updates = {}
        for site in sites:
            models = {role: {name: tensor + 0.01 * torch.randn(tensor.shape, generator=random)
                             for name, tensor in first.items()} for role in (GLOBAL, PERSONAL)}
            updates[site] = Update({role: disk.rest(state) for role, state in models.items()} if disk else models, 10)
        server.models |= method.aggregate(server, updates)
        for site in sites:
            server.note_score(f"{PERSONAL}/{site}", 0.5, server.models[f"{PERSONAL}/{site}"])
        watched.look()
    return watched.rise, sum(tensor.nbytes for tensor in first.values()) / MEGABYTE


def compared(study: Study, small: Study, task: Task, counts: Sequence[int], folder: Path) -> dict[str, float]:
    """Both ways with the larger of two numbers of sites; with a small net, at rest, `LARGE_SITES` of them.

    `estimate_megabytes` is for `LARGE_SITES` of `LARGE_NET` megabytes a model at rest, which nobody measured here: as
    many models in memory as the papers' net needed, at the larger size, and what so many sites of the small net needed
    (the tensors' own objects, which are the same for any size).
    """
    count = max(counts)
    found: dict[str, float] = {}
    for way, where in (("disk", folder), ("memory", None)):
        rise, model = round_megabytes(study, task, count, where)
        found |= {f"{way}_{count}_sites_megabytes": rise, f"{way}_{count}_sites_models": rise / model}
    objects, _ = round_megabytes(small, task, LARGE_SITES, folder)
    found[f"disk_{LARGE_SITES}_sites_small_net_megabytes"] = objects
    found["estimate_megabytes"] = found[f"disk_{count}_sites_models"] * LARGE_NET + objects
    return found
