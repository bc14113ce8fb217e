"""Training never waits for the device: what would make it wait is counted, or cannot be done at all.

A `meta` tensor has no values: to read one (`float`, `.item()`, `.cpu()`) is an error. A method whose steps run on the
meta device therefore issues its work without a look at a result, which on a GPU would stop the queue.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fedsuper.config.reading import parse_study
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.task import Task
from fedsuper.methods import METHODS, create_method
from fedsuper.methods.protocol.server import Server
from fedsuper.methods.protocol.site_round import SiteRound, SiteStore
from fedsuper.train.device import Compute
from fedsuper.train.loop import BatchSource, run_epochs

TASK = Task.from_json({"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}})
SMALL = {"image_size": 32, "model": {"channels": [4, 8], "norm": "batch"}, "augment": {"global": "strong"}}
# What reads a number on purpose: per-fedavg divides by the length of its own gradient, which it first compares with 0.
WAITS = {"per-fedavg"}


def make_site(method: str, compute: Compute, count: int = 8, **more: Any) -> tuple[SiteRound, Any]:
    study = parse_study({**SMALL, "method": method, **more})
    random = torch.Generator().manual_seed(0)
    images = torch.randn(count, 3, 32, 32, generator=random)
    names = [str(number) for number in range(count)]
    samples = Samples(images, (images[:, :2] > 0.5).to(torch.uint8), names, names)
    server = Server(study=study, task=TASK, sites=["A", "B"], samples={"A": count, "B": count})
    whole = create_method(study)
    made = whole.during(whole.phases()[0].name)
    server.models = made.start(server)
    site = SiteRound("A", 0, 2, 1, study, TASK, samples, samples, Compute(torch.device("cpu")), SiteStore())
    return replace(site, compute=compute, received=made.downlink(server, "A")), made


def source_of(site: SiteRound) -> BatchSource:
    return BatchSource(site.train, 4, site.study.augment, site.compute, ("stream",))


class Waits(TorchDispatchMode):
    """Counts the operations that read a tensor's value, and copies from host to device that wait for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.copies = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, options = func.name(), kwargs or {}
        if name in ("aten::_local_scalar_dense", "aten::item", "aten::nonzero", "aten::equal", "aten::is_nonzero"):
            self.found[name] += 1
        if name == "aten::_to_copy" and args[0].device.type == "cpu" and str(options.get("device")) == "meta":
            self.copies += 1
            self.found["waiting copy"] += not options.get("non_blocking")
        if name == "aten::copy_" and args[0].device.type == "meta" and args[1].device.type == "cpu":
            self.found["waiting copy"] += not (args[2] if len(args) > 2 else options.get("non_blocking"))
        return func(*args, **options)


def trainable(method: str) -> bool:
    """Methods whose learners need more than a first downlink are covered by those they are made of."""
    return method not in {"feddg"}


@pytest.mark.parametrize("method", [name for name in sorted(METHODS) if name not in WAITS and trainable(name)])
def test_no_step_of_any_method_looks_at_a_result_or_waits_for_a_copy(method: str) -> None:
    site, made = make_site(method, Compute(torch.device("meta")))
    learners, source = made.learners(site), source_of(site)
    roles = [learner.role for learner in learners]
    for learner in learners:
        learner.start_epoch()
    for _ in source.epoch(roles):  # what is made once and kept, is made here
        pass
    steps = 0
    with Waits() as waits:
        for batches in source.epoch(roles):
            for learner in learners:
                assert batches[learner.role].images.device.type == "meta"
                assert learner.step(batches[learner.role]).device.type == "meta"
                steps += 1
    assert steps == 2 * len(learners) > 0
    assert waits.copies > 0 and waits.found["waiting copy"] == 0


def test_the_meta_device_would_have_told() -> None:
    site, made = make_site("fedavg", Compute(torch.device("meta")))
    with pytest.raises((RuntimeError, NotImplementedError)):
        run_epochs(made.learners(site), source_of(site), 1)  # the epoch's end reads the losses


def test_an_epoch_waits_once_however_many_steps_it_has() -> None:
    """With SGD: Adam counts its steps on the processor, where reading them costs nothing but is counted too."""
    found = []
    for count in (4, 16):
        site, made = make_site("fedsm", Compute(torch.device("cpu")), count, optimizer={"name": "sgd"}, augment="light")
        learners, source = made.learners(site), source_of(site)
        with Waits() as waits:
            run_epochs(learners, source, 1)
        found.append(waits.found)
    assert found[0] == found[1], "a look at a result in each step would make the longer epoch count more"
