"""`--mode route`: segment a hospital's images with a model mixed for them (IOP-FL outside the federation)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

from fedsuper.config import RoutingConfig
from fedsuper.core.state import State
from fedsuper.errors import FedSuperError
from fedsuper.inference.modes import Mode, ModeOptions, Outcome
from fedsuper.inference.predictor import Predictor, SliceBatch
from fedsuper.inference.routing import Progress, RoutingTuner, Tuned
from fedsuper.inference.routing_file import load_routing, save_routing
from fedsuper.models import build_segmentation
from fedsuper.models.routed import RoutedNet
from fedsuper.train.seeding import generator


class Route(Mode):
    """With `routing.reset` every image is tuned for itself, from the untuned gates: results do not depend on order.

    Without it, or with a routing file to write, the gates are tuned once on all of the site's images. A routing file
    that exists is used as it is, without tuning.
    """

    adapts = True

    def __init__(self, predictor: Predictor, options: ModeOptions) -> None:
        super().__init__(predictor, options)
        self.config = predictor.study.routing
        saved = None
        if options.routing_file is not None and options.routing_file.exists():
            saved = load_routing(options.routing_file, predictor.experts)
            self.config = saved.config
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
        with _shown(self.config) as progress:
            tuned = self.tuner.tune(images, progress)
        self.settled = True
        if file is not None:
            save_routing(file, tuned.gates, self.config, tuned.best.coefficients, self.predictor.experts, len(images))

    def predict(self, batch: SliceBatch) -> Outcome:
        cases = batch.images.split(batch.sizes)
        self.prepare(cases)
        if not self.settled:
            tuned = [self.tuner.tune([case]) for case in cases]
            logits = torch.cat([one.best.logits for one in tuned])
            details = [_explain(one) for one, case in zip(tuned, cases, strict=True) for _ in case]
        else:
            logits = self.tuner.logits(batch.images)
            details = []
        return Outcome(logits.sigmoid(), ["route"] * len(batch), details=details)


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
        "losses": [round(loss, 6) for loss in tuned.losses],
        "seconds": round(tuned.seconds[-1], 3),
        "coefficients": {layer: [round(r, 4) for r in row.tolist()] for layer, row in tuned.best.coefficients.items()},
    }


@contextmanager
def _shown(config: RoutingConfig) -> Iterator[Progress]:
    """A progress bar on a terminal; nothing elsewhere."""
    from tqdm import tqdm

    with tqdm(total=config.epochs, desc="tuning the routing", unit="epoch", disable=None, leave=False) as bar:

        def show(done: int, in_all: int, loss: float) -> None:
            bar.update(done - bar.n)
            bar.set_postfix(loss=f"{loss:.4f}")

        yield show
