"""What a method sees at a site during one round: what came, what the site keeps, its data, and how to train."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from fedsuper.config import Study
from fedsuper.core.state import Models, State, clone
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.task import Task
from fedsuper.methods.protocol import nets
from fedsuper.train.device import Compute
from fedsuper.train.learner import Learner, Loss, make_optimizer
from fedsuper.train.loop import BatchSource, predict_samples, region_dice, run_epochs
from fedsuper.train.losses import LOSSES
from fedsuper.train.private_steps import PrivateSteps

BEST = "best"


@dataclass
class SiteStore:
    """What a site keeps between rounds, on its own disk: models by name and plain values."""

    models: Models = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


@dataclass
class SiteRound:
    """One site in one round. `label` is its class for the selector, assigned by the server.

    `store` is what it keeps between rounds, `received` what the server sent for this one. Figures over fewer patients
    than `minimum` do not leave the site. `releases` counts noised sums over its images (`privacy.mechanism: dp-sgd`).
    """

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
    losses: dict[str, float] = field(default_factory=dict)
    minimum: int = 1
    releases: int = 0

    def segmentation(self, state: State | None = None) -> nn.Module:
        """A segmentation net on this site's device, with the given weights."""
        return self._place(nets.segmentation_net(self.study, self.task), state)

    def selector(self, state: State, classes: int | None = None) -> nn.Module:
        """The selector on this site's device, with the given weights."""
        return self._place(nets.selector_net(self.study, self.task, classes or self.classes), state)

    def _place(self, net: nn.Module, state: State | None) -> nn.Module:
        if state is not None:
            net.load_state_dict(state)
        return self.compute.place_net(net)

    @property
    def loss(self) -> Loss:
        """The study's loss of segmentation models."""
        return LOSSES[self.study.loss]

    def learner(
        self, role: str, state: State, kind: type[Learner] = Learner, lr: float | None = None, **options: Any
    ) -> Learner:
        """A learner that starts from `state` and, where the study keeps it, from last round's optimizer state."""
        net = self.segmentation(state)
        config = self.study.optimizer if lr is None else self.study.optimizer.model_copy(update={"lr": lr})
        learner = kind(role, net, make_optimizer(list(net.parameters()), config), self.loss, self.compute, **options)
        self.restore_optimizer(learner)
        return learner

    def restore_optimizer(self, learner: Learner) -> None:
        """Give a learner the optimizer state its role had after the last round, where the study keeps it."""
        kept = self.store.models.get(f"optimizer/{learner.role}")
        if kept and self.study.optimizer.state == "keep":
            learner.load_optimizer_state(kept)

    def fit(
        self,
        learners: Sequence[Learner],
        epochs: int | None = None,
        purpose: str = "train",
        after_epoch: Callable[[], None] | None = None,
    ) -> None:
        """Run the epoch loop over this site's training data and keep the optimizers' state."""
        names = (self.study.seed, self.name, self.round, purpose)
        augment = self.study.augment.for_channels(self.task.channels)
        source = BatchSource(self.train, self.study.batch_size, augment, self.compute, names)
        epochs = self.study.local_epochs if epochs is None else epochs
        private = self.study.privacy
        if private.noise > 0 and private.mechanism == "dp-sgd":
            for learner in learners:
                PrivateSteps(private.clip, private.noise).attach(learner)
            self.releases += epochs * len(learners)
        self.losses.update(run_epochs(learners, source, epochs, after_epoch))
        if self.study.optimizer.state == "keep":
            for learner in learners:
                state = learner.optimizer_state()
                if state:
                    self.store.models[f"optimizer/{learner.role}"] = state

    def keep_best(self, role: str, score: float, state: State) -> None:
        """Remember `state` if it is the role's best on this site's validation data; of equals the later one."""
        if score >= self.store.values.get(f"{BEST}/{role}", -math.inf):
            self.store.values[f"{BEST}/{role}"] = score
            self.store.models[f"{BEST}/{role}"] = clone(state)

    def best(self, role: str) -> State | None:
        """The role's best model so far on this site's validation data."""
        return self.store.models.get(f"{BEST}/{role}")

    def dice(self, state: State) -> float:
        """Dice of a model on this site's validation data, mean over images, then regions."""
        return float(self.region_dice(state).mean())

    def region_dice(self, state: State) -> torch.Tensor:
        """The same by region, in the task's order."""
        return region_dice(self.segmentation(state), self.val, self.compute)

    @torch.no_grad()
    def selector_scores(self, state: State) -> dict[str, float]:
        """Accuracy and cross-entropy of a selector on this site's validation data, all of class `label`."""
        logits = torch.cat([logits for logits, _ in predict_samples(self.selector(state), self.val, self.compute)])
        target = torch.full((len(logits),), self.label)
        return {
            "accuracy": float((logits.argmax(dim=1) == target).double().mean()),
            "loss": float(F.cross_entropy(logits, target)),
        }
