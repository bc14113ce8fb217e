"""`--mode route`: segment a hospital's images with a model mixed for them (IOP-FL outside the federation)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch

from fedsuper.config import RoutingConfig
from fedsuper.core.state import State
from fedsuper.display import Display
from fedsuper.errors import FedSuperError
from fedsuper.inference.modes.base import Mode, ModeOptions, Outcome
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.routing.file import load_routing, save_routing
from fedsuper.inference.routing.tuner import Progress, RoutingTuner, Tuned
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.models.build import build_segmentation
from fedsuper.models.routed.routed_net import RoutedNet
from fedsuper.train.seeding import generator

LEAST_SHARE = 1e-3  # a coefficient that starts at nothing could never move


class Route(Mode):
    """With `routing.reset` every image is tuned for itself, from the untuned gates: results do not depend on order.

    Without it, or with a routing file to write, the gates are tuned once on all of the site's images. A routing file
    that exists is used as it is, without tuning.
    """

    name: ClassVar[str] = "route"
    keeps_gates: ClassVar[bool] = True
    adapts: ClassVar[bool] = True

    def __init__(self, predictor: Predictor, options: ModeOptions) -> None:
        super().__init__(predictor, options)
        self.config = predictor.study.routing
        saved = None
        if options.routing_file is not None and options.routing_file.exists():
            saved = load_routing(options.routing_file, predictor.experts)
            self.config = saved.config
        if self.config.start == "selector":
            predictor.check_selector()
        self.tuner = create_tuner(predictor, self.config)
        self.settled = saved is not None
        if saved is not None:
            _load_gates(self.tuner.net, saved.gates, str(options.routing_file))

    def prepare(self, cases: Iterable[torch.Tensor]) -> None:
        file = self.options.routing_file
        if self.settled or (self.config.reset and file is None):
            return
        images = list(cases)
        if not images:  # none could be read: each is told in its turn
            return
        with _shown() as progress:
            tuned = self.tuner.tune(images, progress, start=self._start(images))
        self.settled = True
        if file is not None:
            save_routing(file, tuned.gates, self.config, tuned.best.coefficients, self.predictor.experts, len(images))

    def predict(self, batch: SliceBatch) -> Outcome:
        cases = torch.split(batch.images, batch.sizes)
        self.prepare(cases)
        answers = [self._answer(case) for case in cases]
        shares = [dict(zip(self.predictor.experts, one.shares.tolist(), strict=True)) for one in answers]
        return Outcome(
            torch.cat([one.logits for one in answers]).sigmoid(),
            [self.name] * len(batch),
            self.told_sites(batch),
            batch.for_slices([one.details for one in answers]),
            batch.for_slices(shares),
        )

    def _answer(self, case: torch.Tensor) -> _Answer:
        if self.settled:
            logits, coefficients = self.tuner.answer(case)
            return _Answer(logits, mean_row(coefficients), {})
        tuned = self.tuner.tune([case], start=self._start([case]))
        return _Answer(tuned.best.logits, mean_row(tuned.best.coefficients), _explain(tuned))


    def _start(self, cases: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """Where the coefficients begin: evenly (None), or at the selector's mean probabilities of these images.

        The global model, which the selector does not know, keeps its even share; no model starts at nothing.
        """
        if self.config.start == "even":
            return None
        experts, classes = list(self.predictor.experts), self.predictor.classes
        q = torch.cat([self.predictor.selector_probabilities(case) for case in cases]).mean(dim=0)
        named = dict(zip(classes, q.tolist(), strict=True))
        fresh = [name for name in experts if name not in named]
        share = 1 - len(fresh) / len(experts)
        row = torch.tensor([1 / len(experts) if name in fresh else share * named[name] for name in experts])
        return (row.clamp(min=LEAST_SHARE) / row.clamp(min=LEAST_SHARE).sum()).clamp(max=1 - LEAST_SHARE)


@dataclass(frozen=True)
class _Answer:
    """What came out for one image: `shares` are the experts' mean coefficients over all layers."""

    logits: torch.Tensor
    shares: torch.Tensor
    details: dict[str, object]


def mean_row(coefficients: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """A routing matrix as one row: the mean over its layers."""
    return torch.stack(list(coefficients.values())).mean(dim=0)


def create_tuner(predictor: Predictor, config: RoutingConfig) -> RoutingTuner:
    """The routed net over a super model's experts, untuned, with its tuner."""
    with torch.device("meta"):  # only the shape of the net is needed: all its weights come from the experts
        template = build_segmentation(predictor.study.model, predictor.channels, len(predictor.task.regions))
    seed = predictor.study.seed
    net = RoutedNet(template, list(predictor.experts.values()), config, generator(seed, "routing-gates"))
    predictor.compute.place_net(net)
    return RoutingTuner(net, config, predictor.compute, seed)


def _load_gates(net: RoutedNet, gates: State, source: str) -> None:
    try:
        net.load_state_dict(gates)
    except RuntimeError:
        raise FedSuperError(f"{source}: its gates do not fit this super model's net; tune again") from None


def _explain(tuned: Tuned) -> dict[str, object]:
    return {
        "epoch": tuned.best.number,
        "loss_untuned": round(tuned.losses[0], 6),
        "loss_tuned": round(tuned.best.loss, 6),
        "losses": [round(loss, 6) for loss in tuned.losses],
        "seconds": round(tuned.seconds[-1], 3),
        "coefficients": {layer: [round(r, 4) for r in row.tolist()] for layer, row in tuned.best.coefficients.items()},
    }


@contextmanager
def _shown() -> Iterator[Progress]:
    """A progress bar on a terminal; nothing elsewhere."""
    display = Display("tuning the routing")

    def show(done: int, in_all: int, loss: float) -> None:
        display.bar(done, in_all, f"epochs  loss {loss:.4f}")

    try:
        yield show
    finally:
        display.close()
