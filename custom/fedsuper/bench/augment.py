"""What strong augmentation costs: a training step of FedSM's nets at the default study's settings, against `light`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch

from fedsuper.config import Study
from fedsuper.data.augment.settings import PRESETS, AugmentSettings
from fedsuper.data.prepared.samples import Samples
from fedsuper.models.build import build_segmentation
from fedsuper.train.device import Compute
from fedsuper.train.learner import Learner, make_optimizer
from fedsuper.train.loop import BatchSource
from fedsuper.train.losses import LOSSES

CHANNELS, REGIONS, BATCHES, REPEATS = 3, 2, 4, 7
MOST = 1.15


def run(out: Path) -> dict[str, Any]:
    """Epochs of a few batches, one preset after the other in turn; processor seconds of a single thread."""
    torch.set_num_threads(1)
    study = Study()
    epochs = {name: _epoch(study, AugmentSettings.model_validate(name)) for name in PRESETS}
    for epoch in epochs.values():
        epoch()
    seconds = [{name: _seconds(epoch) for name, epoch in epochs.items()} for _ in range(REPEATS)]
    ratio = median(found["strong"] / found["light"] for found in seconds)
    return {
        "setting": f"{study.model.name} twice, {study.image_size} px, batches of {study.batch_size}, 1 thread",
        **{f"{name}_seconds_per_step": median(found[name] for found in seconds) / BATCHES for name in PRESETS},
        "strong_over_light": ratio,
        "promises": {f"a step with strong augmentation costs at most {MOST:g} of one with light": ratio <= MOST},
    }


def _epoch(study: Study, augment: AugmentSettings) -> Callable[[], None]:
    """An epoch of a global and a personalized model on noise; what the images show does not change the cost."""
    compute = Compute(torch.device("cpu"))
    count, side = BATCHES * study.batch_size, study.image_size
    images = torch.randn(count, CHANNELS, side, side, generator=torch.Generator().manual_seed(0))
    names = [str(index) for index in range(count)]
    samples = Samples(images, (images[:, :REGIONS] > 0).to(torch.uint8), names, names)
    source = BatchSource(samples, study.batch_size, augment.for_channels(CHANNELS), compute, ("bench",))
    learners = list(_learners(study, compute))

    def epoch() -> None:
        for batches in source.epoch([learner.role for learner in learners]):
            for learner in learners:
                learner.step(batches[learner.role])

    return epoch


def _learners(study: Study, compute: Compute) -> Iterator[Learner]:
    for role in ("global", "personal"):
        net = build_segmentation(study.model, CHANNELS, REGIONS)
        yield Learner(role, net, make_optimizer(list(net.parameters()), study.optimizer), LOSSES[study.loss], compute)


def _seconds(work: Callable[[], None]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
