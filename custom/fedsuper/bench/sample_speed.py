"""A site with 50,000 slices of 256 px whose samples rest in files: memory while an epoch is loaded, and speed.

The files are sparse: they have their full 16 GB of length, are mapped and read like any other, and hold zeros, which
take no room on the disk; what the images show changes neither memory nor speed. An epoch of all slices is loaded in
random order for the memory; for the speed a net (UNet 16..256) trains on batches from the file and from memory in turn.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from fedsuper.bench.peak_memory import peak_megabytes
from fedsuper.config import Study
from fedsuper.data.augment.settings import AugmentSettings
from fedsuper.data.prepared.mapped import IMAGES, INDEX, MASKS, open_samples
from fedsuper.data.prepared.samples import Samples
from fedsuper.files import atomic_write_json
from fedsuper.models.build import build_segmentation
from fedsuper.train.device import Compute
from fedsuper.train.learner import Learner, make_optimizer
from fedsuper.train.loop import BatchSource, run_epochs
from fedsuper.train.losses import LOSSES

SLICES, SIDE, BATCHES, REPEATS = 50_000, 256, 3, 5
MOST_MEGABYTES, LEAST_RATE = 2000.0, 0.9


def run(out: Path) -> dict[str, Any]:
    """Memory first: what this process held before counts too."""
    torch.set_num_threads(1)
    place = Path(out) / "samples"
    samples = open_samples(sparse(place))
    try:
        started = time.monotonic()
        order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))
        size = Study().batch_size
        for index in order.split(size):
            samples.batch(index)
        seconds, peak = time.monotonic() - started, peak_megabytes()
        few = order[: BATCHES * size]
        here = Samples(*samples.batch(few), [samples.names[i] for i in few], [samples.cases[i] for i in few])
        step = {"file": _epoch(samples, few), "memory": _epoch(here, torch.arange(len(few)))}
        pairs = [(_seconds(step["memory"]), _seconds(step["file"])) for _ in range(REPEATS)]
    finally:
        shutil.rmtree(place)
    rate = median(memory / file for memory, file in pairs)
    return {
        "setting": f"{SLICES} slices of {SIDE} px, 1 channel, batches of {size}; sparse files",
        "slices": SLICES,
        "gigabytes_in_files": SLICES * SIDE * SIDE * 5 / 1e9,
        "peak_megabytes": peak,
        "loading_gigabytes_per_second": SLICES * SIDE * SIDE * 5 / 1e9 / seconds,
        "of_the_rate_in_memory": rate,
        "promises": {
            f"{SLICES} slices in at most {MOST_MEGABYTES:g} MB": peak <= MOST_MEGABYTES,
            f"training at {LEAST_RATE:g} or more of the rate in memory": rate >= LEAST_RATE,
        },
    }


def sparse(place: Path) -> Path:
    """The files of so many slices, with holes for pixels."""
    place.mkdir(parents=True, exist_ok=True)
    for name, width in ((IMAGES, 4), (MASKS, 1)):
        with open(place / name, "wb") as file:
            file.truncate(SLICES * SIDE * SIDE * width)
    names = [str(index) for index in range(SLICES)]
    atomic_write_json(place / INDEX, {"names": names, "cases": names, "shapes": [[1, SIDE, SIDE], [1, SIDE, SIDE]]})
    return place


def _epoch(samples: Samples, index: torch.Tensor) -> Any:
    """Training on these samples, batch by batch, as a site does."""
    study, compute = Study(), Compute(torch.device("cpu"))
    net = build_segmentation(study.model, 1, 1)
    optimizer = make_optimizer(list(net.parameters()), study.optimizer)
    learner = Learner("global", net, optimizer, LOSSES[study.loss], compute)
    source = BatchSource(samples, study.batch_size, AugmentSettings().for_channels(1), compute, ("bench",))
    source.epoch = lambda roles: source._batches(index.split(study.batch_size), roles)  # type: ignore[method-assign]
    return lambda: run_epochs([learner], source, 1)


def _seconds(work: Any) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started



