"""Whole studies on a tiny federation, with accidents on demand: a lost answer, a poisoned one, a crash."""

from __future__ import annotations

import functools
import io
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.prepared.samples import Samples
from fedsuper.engines.in_process import LocalExchange, sites_of
from fedsuper.federation.messages import CALIBRATE, HANDOVER, SETTLE, TRAIN, Message, SiteFailure
from fedsuper.federation.progress import Progress
from fedsuper.federation.server_loop import Federation
from fedsuper.federation.site_data import SiteData
from fedsuper.federation.site_worker import SiteWorker
from fedsuper.train.checkpoint import digest

SMALL: dict[str, Any] = {
    "rounds": 2,
    "image_size": 32,
    "model": {"channels": [4, 8], "residual_units": 0},
    "optimizer": {"lr": 0.01},
    "fedsm-extra": {"extra_rounds": 1},
    "fedsm-ensemble": {"extra_rounds": 1},
    "ft": {"epochs": 1},
    "fedrep": {"head_epochs": 1},
}


def small_study(method: str, norm: str = "instance") -> Study:
    """A study of two rounds and, where the method has them, two of its own."""
    return parse_study({**SMALL, "method": method, "model": {**SMALL["model"], "norm": norm}})


class CrashError(Exception):
    """The server's process ends."""


@functools.cache
def prepared(name: str, root: Path, split: str) -> Samples:
    """A site's samples, read once for all rehearsals: they prepare images the same way."""
    study = parse_study({"image_size": SMALL["image_size"]})
    with tempfile.TemporaryDirectory() as state:
        return SiteData(name, root, Path(state)).samples(study, split)


class PreparedData(SiteData):
    """Samples that are kept from one rehearsal to the next."""

    def samples(self, study: Study, part: str) -> Samples:
        return prepared(self.name, self.root, part)


class Worker(SiteWorker):
    """A site with prepared data."""

    def __post_init__(self) -> None:
        self.data = PreparedData(self.name, self.data_root, self.state_folder)


@dataclass
class Accidents:
    """What goes wrong in which round (counted from 1): an unasked site, a lost, poisoned or cut answer, a crash."""

    unasked: dict[int, str] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)
    poisoned: dict[int, str] = field(default_factory=dict)
    cut: dict[int, str] = field(default_factory=dict)
    crash: int | None = None


class Rehearsal(LocalExchange):
    """The in-process engine's exchange with accidents; the hand-over to the sites is left out."""

    def __init__(self, workers: dict[str, SiteWorker], accidents: Accidents) -> None:
        super().__init__(workers, threads=1)
        self.accidents = accidents

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | SiteFailure]:
        if task in (HANDOVER, CALIBRATE, SETTLE):
            return {site: SiteFailure("not rehearsed") for site in messages}
        number = next(iter(messages.values())).info.get("round", -1) + 1 if task == TRAIN else 0
        unasked = self.accidents.unasked.get(number)
        replies = super().__call__(task, {site: m for site, m in messages.items() if site != unasked}, timeout)
        if number and self.accidents.crash == number:
            raise CrashError
        if number in self.accidents.lost:
            replies[self.accidents.lost[number]] = SiteFailure("timed out")
        if number in self.accidents.poisoned:
            site = self.accidents.poisoned[number]
            replies[site] = poison(replies[site])
        if number in self.accidents.cut:
            site = self.accidents.cut[number]
            replies[site] = cut(replies[site])
        return replies


def poison(reply: Message | SiteFailure) -> Message:
    """The same answer with a NaN in every model."""
    assert isinstance(reply, Message)
    models = {role: {name: tensor.clone() for name, tensor in state.items()} for role, state in reply.models.items()}
    for state in models.values():
        for tensor in state.values():
            if tensor.is_floating_point() and tensor.numel():
                tensor.view(-1)[0] = torch.nan
                break
    return replace(reply, models=models)


def cut(reply: Message | SiteFailure) -> Message:
    """The same answer with one entry less in every model."""
    assert isinstance(reply, Message)
    return replace(reply, models={role: dict(list(state.items())[1:]) for role, state in reply.models.items()})


@dataclass
class Outcome:
    """A finished rehearsal."""

    super_model: SuperModel
    federation: Federation
    notes: str

    @property
    def bits(self) -> dict[str, str]:
        """A digest of every model that is handed over."""
        whole = self.super_model
        models = dict(whole.experts()) | whole.extras | ({"selector": whole.selector} if whole.selector else {})
        return {name: digest(state) for name, state in models.items()}


def rehearse(
    study: Study, root: Path, folder: Path, accidents: Accidents | None = None, resume: bool = False
) -> Outcome:
    """Run a study under `folder`."""
    sites = sites_of(study, root)
    workers: dict[str, SiteWorker] = {site: Worker(site, root, folder / "sites" / site) for site in sites}
    stream = io.StringIO()
    exchange = Rehearsal(workers, accidents or Accidents())
    federation = Federation(study, exchange, folder / "server", Progress(study.method, None, stream))
    return Outcome(federation.run(resume), federation, stream.getvalue())
