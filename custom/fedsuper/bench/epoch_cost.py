"""A local epoch of FedSM against the bare loop of the same three nets.

The bare loop has its images at hand and its nets built: it augments each batch, then takes forward, loss, backward and
step of the global and the personalized net and the gradient of the selector, and nothing else. FedSM's epoch is
`Method.local_update`, as a site runs it: with loading, building the nets, and what goes up. Both keep the memory they
free (`train/allocator.py`), as a site does; without that the two loops differ by how often the system clears pages.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.nn import functional

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.core.supermodel import GLOBAL
from fedsuper.data.augment.batch import augment_batch
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.task import Task
from fedsuper.methods import create_method
from fedsuper.methods.protocol import nets
from fedsuper.methods.protocol.role import PERSONAL, SELECTOR
from fedsuper.methods.protocol.server import Server
from fedsuper.methods.protocol.site_round import SiteRound, SiteStore
from fedsuper.train.allocator import keep_freed_memory
from fedsuper.train.device import Compute
from fedsuper.train.learner import make_optimizer
from fedsuper.train.losses import LOSSES

SIDE, BATCHES, REPEATS, SITES = 256, 8, 9, 6
NETS = {"plain": (0, 1.05), "residual": (2, 1.10)}  # residual units, and what is promised


def run(out: Path) -> dict[str, Any]:
    """Both nets; processor seconds of a single thread, the two loops in turn, medians."""
    torch.set_num_threads(1)
    keep_freed_memory()
    found = {name: cost(units) for name, (units, _) in NETS.items()}
    return {
        "setting": f"FedSM, UNet 16..256, {SIDE} px, batches of {study_with(0).batch_size}, 1 thread",
        **found,
        "promises": {
            f"{name}: an epoch costs at most {most:g} of the bare loop": found[name]["over_bare"] <= most
            for name, (_, most) in NETS.items()
        },
    }


def study_with(units: int) -> Study:
    """FedSM with the papers' net."""
    return parse_study({"method": "fedsm", "image_size": SIDE, "model": {"residual_units": units}})


def cost(units: int) -> dict[str, float]:
    """Seconds a step of both loops, and their ratio."""
    site = site_with(study_with(units))
    method = create_method(site.study)
    bare = bare_loop(site)
    bare()
    method.local_update(site)
    loops: list[tuple[str, Callable[[], object]]] = [("bare", bare), ("ours", lambda: method.local_update(site))]
    seconds: dict[str, list[float]] = {name: [] for name, _ in loops}
    for turn in range(REPEATS):
        for name, loop in loops[:: 1 if turn % 2 else -1]:  # either is first in turn: a machine that slows hits both
            seconds[name].append(_seconds(loop))
    least, ours = (median(seconds[name]) / BATCHES for name, _ in loops)
    return {"bare_seconds_per_step": least, "seconds_per_step": ours, "over_bare": ours / least}


def site_with(study: Study, side: int = SIDE) -> SiteRound:
    """A site with a few batches of noise; what the images show does not change the cost."""
    task = Task.from_json({"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}})
    count = BATCHES * study.batch_size
    images = torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(0))
    names = [str(index) for index in range(count)]
    samples = Samples(images, (images[:, :2] > 0).to(torch.uint8), names, names)
    sites = [f"site-{index}" for index in range(SITES)]
    server = Server(study, task, sites, dict.fromkeys(sites, count))
    method = create_method(study)
    server.models = method.start(server)
    received = method.downlink(server, sites[0])
    compute = Compute(torch.device("cpu"))
    return SiteRound(sites[0], 0, SITES, 1, study, task, samples, samples, compute, SiteStore(), received)


def bare_loop(site: SiteRound) -> Callable[[], None]:
    """The least that training these nets can be."""
    study, loss = site.study, LOSSES[site.study.loss]
    batches = list(zip(site.train.images.split(study.batch_size), site.train.masks.float().split(study.batch_size),
                       strict=True))
    segmenting = [nets.segmentation_net(study, site.task).train() for _ in (GLOBAL, PERSONAL)]
    optimizers = [make_optimizer(list(net.parameters()), study.optimizer) for net in segmenting]
    way, random = study.augment.for_channels(3).for_role(GLOBAL), torch.Generator().manual_seed(0)
    selector = nets.selector_net(study, site.task, SITES).train()
    assert SELECTOR in site.received, "three nets, as in the paper"

    def loop() -> None:
        for loaded, masks_of in batches:
            images, masks = augment_batch(loaded, masks_of, way, random)
            for net, optimizer in zip(segmenting, optimizers, strict=True):
                optimizer.zero_grad(set_to_none=True)
                loss(net(images), masks).backward()
                optimizer.step()
            functional.cross_entropy(selector(images), torch.zeros(len(images), dtype=torch.long)).backward()

    return loop


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
