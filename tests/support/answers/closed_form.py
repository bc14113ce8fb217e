"""A small federation with the closed-form selector, whose messages are kept and may be lost."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.in_process import LocalExchange, sites_of
from fedsuper.federation.messages import HANDOVER, Message, SiteFailure
from fedsuper.federation.progress import Progress
from fedsuper.federation.server_loop import Federation
from fedsuper.federation.site_worker import SiteWorker

SMALL: dict[str, Any] = {
    "method": "fedsm", "rounds": 1, "image_size": 32, "optimizer": {"lr": 0.01},
    "model": {"name": "plain-unet", "channels": [4, 8], "norm": "batch"},
}


class Wire(LocalExchange):
    """The in-process exchange that remembers what passed, and loses the answers of `deaf` sites to `losing`."""

    def __init__(self, workers: dict[str, SiteWorker], deaf: set[str], losing: str) -> None:
        super().__init__(workers, threads=1)
        self.deaf = deaf
        self.losing = losing
        self.up: list[tuple[str, str, Message]] = []

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | SiteFailure]:
        replies = super().__call__(task, messages, timeout)
        for site in replies:
            if task == self.losing and site in self.deaf:
                replies[site] = SiteFailure("timed out")
        self.up += [(task, site, reply) for site, reply in replies.items() if isinstance(reply, Message)]
        return replies


def federate(
    root: Path, folder: Path, study: Study, deaf: set[str] | None = None, losing: str = HANDOVER
) -> tuple[SuperModel, Wire, str]:
    workers = {site: SiteWorker(site, root, folder / site) for site in sites_of(study, root)}
    wire, shown = Wire(workers, deaf or set(), losing), io.StringIO()
    return Federation(study, wire, folder / "server", Progress("run", None, shown)).run(), wire, shown.getvalue()


def closed_form(**more: Any) -> Study:
    return parse_study({**SMALL, "selector": {"kind": "statistics", **more}})
