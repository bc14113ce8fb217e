"""What a method sees at a site during one round: what came, what the site keeps, its data, and how to train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from fedsuper.config import Study
from fedsuper.core.state import Models, State
from fedsuper.data.augment import AugmentConfig
from fedsuper.data.dataset import Samples
from fedsuper.data.task import Task
from fedsuper.models import build_segmentation, build_selector
from fedsuper.train.device import Compute
from fedsuper.train.learner import Learner, make_optimizer
from fedsuper.train.loop import BatchSource, predict, run_epochs, validation_dice
from fedsuper.train.losses import LOSSES
from fedsuper.train.seeding import generator


@dataclass
class SiteStore:
    """What a site keeps between rounds, on its own disk: models by name and plain values."""

    models: Models = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


@dataclass
class Site:
    """One site in one round. `label` is its class for the selector, assigned by the server."""

    name: str
    label: int
    classes: int
    round: int
    study: Study
    task: Task
    train: Samples
    val: Samples
    compute: Compute
    store: SiteStore
    received: Models = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    losses: dict[str, float] = field(default_factory=dict)

    @property
    def channels(self) -> int:
        """Input planes of the nets: image channels times context slices."""
        return self.task.channels * self.study.preprocess.slices

    def segmentation(self, state: State | None = None) -> nn.Module:
        """A segmentation net on this site's device, with the given weights."""
        return self._place(build_segmentation(self.study.model, self.channels, len(self.task.regions)), state)

    def selector(self, state: State, classes: int | None = None) -> nn.Module:
        """The selector on this site's device, with the given weights."""
        return self._place(build_selector(self.study.selector, self.channels, classes or self.classes), state)

    def _place(self, net: nn.Module, state: State | None) -> nn.Module:
        if state is not None:
            net.load_state_dict(state)
        return self.compute.place_net(net)

    def learner(self, role: str, state: State, kind: type[Learner] = Learner, **options: Any) -> Learner:
        """A learner that starts from `state` and, where the study keeps it, from last round's optimizer state."""
        net = self.segmentation(state)
        optimizer = make_optimizer(list(net.parameters()), self.study.optimizer)
        learner = kind(role, net, optimizer, LOSSES[self.study.loss], self.compute, **options)
        kept = self.store.models.get(f"optimizer/{role}")
        if kept and self.study.optimizer.state == "keep":
            learner.load_optimizer_state(kept)
        return learner

    def fit(self, learners: Sequence[Learner], epochs: int | None = None, purpose: str = "train") -> None:
        """Run the epoch loop over this site's training data and keep the optimizers' state."""
        random = generator(self.study.seed, self.name, self.round, purpose)
        augment = AugmentConfig(**self.study.augment.model_dump())
        source = BatchSource(self.train, self.study.batch_size, augment, self.compute, random)
        losses = run_epochs(learners, source, self.study.local_epochs if epochs is None else epochs)
        self.losses.update(losses)
        if self.study.optimizer.state == "keep":
            for learner in learners:
                state = learner.optimizer_state()
                if state:
                    self.store.models[f"optimizer/{learner.role}"] = state

    def dice(self, state: State) -> float:
        """Dice of a model on this site's validation data."""
        return validation_dice(self.segmentation(state), self.val, self.compute)

    @torch.no_grad()
    def selector_scores(self, state: State) -> dict[str, float]:
        """Accuracy and cross-entropy of a selector on this site's validation data, all of class `label`."""
        logits = predict(self.selector(state), self.val.images, self.compute)
        target = torch.full((len(logits),), self.label)
        return {
            "accuracy": float((logits.argmax(dim=1) == target).double().mean()),
            "loss": float(F.cross_entropy(logits, target)),
        }
