"""A model of its own for a hospital with a few labels: the usual recipe, left only where leaving one out says so.

Usual: the even mixture, `USUAL_STEPS` steps with half the study's learning rate (Adam 1e-3 by default) on batches of
nearly equal size, strongly augmented, weights averaged over the last steps. No model ends on the jolt of its last
batch, and no batch is a single left-over image: with both, five labels could be worth less than three.

A patient is left out, the others train, the Dice on the patient left out is noted after every `CHECK_STEPS` steps. A
few patients cannot rank many recipes, so another start or length is taken only where its gain over the usual, patient
by patient, is larger than `SURE` standard errors. No steps at all is among the choices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from fedsuper.core.metrics import dice_scores
from fedsuper.core.state import State, clone
from fedsuper.data.augment.settings import AugmentSettings
from fedsuper.data.prepared.samples import Samples
from fedsuper.inference.predictor import Predictor
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.models.build import build_segmentation
from fedsuper.train.learner import Batch, Learner, make_optimizer
from fedsuper.train.loop import BatchSource, run_epochs
from fedsuper.train.loop import predict as forward
from fedsuper.train.losses import LOSSES

CHECK_STEPS = 10
USUAL_STEPS = 60
GENTLE = 0.5  # of the study's learning rate
MEMORY = 0.95  # of the average of weights: about the last twenty steps
FOLDS = 10  # at most so many patients, or groups of patients, are left out in turn
SURE = 2.0


@dataclass(frozen=True)
class Fitted:
    """The hospital's model and how it was found: `before` and `after` are Dice on patients left out."""

    state: State
    start: str
    steps: int
    before: float
    after: float
    starts: dict[str, float]


class AveragedLearner(Learner):
    """Its state is the average of its weights: m <- b m + (1 - b) w after step t, b = min(`MEMORY`, t/(t + 9))."""

    average: State

    def step(self, batch: Batch) -> torch.Tensor:
        value = super().step(batch)
        keep = min(MEMORY, self.steps / (self.steps + 9))
        for name, tensor in self.net.state_dict().items():
            if tensor.is_floating_point():
                self.average[name].lerp_(tensor.cpu(), 1 - keep)
            else:
                self.average[name].copy_(tensor)
        return value

    def state(self) -> State:
        return clone(self.average)


class FineTuning:
    """Fine-tunes a super model's weights on `samples`, for `checks` times `CHECK_STEPS` steps, or fewer."""

    def __init__(
        self, predictor: Predictor, samples: Samples, checks: int, seed: int, pace: float = GENTLE
    ) -> None:
        self.predictor = predictor
        self.samples = samples
        self.checks = checks
        self.seed = seed
        self.pace = pace

    def fit(self, starts: Mapping[str, State], tried: Sequence[str], note: Callable[[str], None]) -> Fitted:
        """The start and length that leaving one out allows, then all labels.

        Of the starts `tried` the first is usual; it and the best of the others, as they are, train.
        """
        asis = {name: self.score(state, self.samples) for name, state in starts.items()}
        curves = {}
        for name in [tried[0], *sorted(tried[1:], key=lambda name: -asis[name])[:1]]:
            curves[name] = self._leave_one_out(starts[name])
            means = curves[name].mean(dim=0)
            note(f"start {name}: Dice {means[0]:.3f} as it is, {means.max():.3f} fine-tuned (left out)")
        start, best = worth_leaving(curves, tried[0])
        state = self.train(starts[start], self.samples, best, "all")
        left_out = curves[start].mean(dim=0)
        return Fitted(state, start, best * CHECK_STEPS, float(left_out[0]), float(left_out[best]), asis)

    def _leave_one_out(self, start: State) -> torch.Tensor:
        """Dice on what was left out, `[folds, 1 + checks]`: before training and after each check."""
        curves = []
        for number, fold in enumerate(_folds(self.samples.cases)):
            held = _rows(self.samples, fold)
            rest = _rows(self.samples, set(self.samples.cases) - fold)
            states = [start]
            self.train(start, rest, self.checks, f"fold-{number}", states.append)
            curves.append([self.score(state, held) for state in states])
        return torch.tensor(curves, dtype=torch.float64)

    def train(
        self, start: State, samples: Samples, checks: int, purpose: str, seen: Callable[[State], None] | None = None
    ) -> State:
        """The weights after `checks` times `CHECK_STEPS` steps from `start`; `seen` is shown those on the way."""
        predictor, study = self.predictor, self.predictor.study
        net = build_segmentation(study.model, predictor.channels, len(predictor.task.regions))
        net.load_state_dict(start)
        net = predictor.compute.place_net(net)
        config = study.optimizer.model_copy(update={"lr": self.pace * study.optimizer.lr})
        optimizer = make_optimizer(list(net.parameters()), config)
        learner = AveragedLearner(PERSONAL, net, optimizer, LOSSES[study.loss], predictor.compute)
        learner.average = clone(start)
        batches = max(1, len(samples) // study.batch_size)  # of nearly equal size, none a single left-over image
        augment = AugmentSettings.model_validate("strong").for_channels(predictor.task.channels)
        names = (self.seed, "adapt", purpose)
        source = BatchSource(samples, math.ceil(len(samples) / batches), augment, predictor.compute, names)
        for _ in range(checks):
            run_epochs([learner], source, max(1, round(CHECK_STEPS / batches)))
            if seen is not None:
                seen(learner.state())
        return learner.state()

    def score(self, state: State, samples: Samples) -> float:
        """Mean Dice over images and regions."""
        net = build_segmentation(self.predictor.study.model, self.predictor.channels, samples.masks.shape[1])
        net.load_state_dict(state)
        logits = forward(self.predictor.compute.place_net(net), samples.images, self.predictor.compute)
        return float(dice_scores(logits > 0, samples.masks).mean())


def worth_leaving(curves: Mapping[str, torch.Tensor], usual: str) -> tuple[str, int]:
    """Start and length, from the Dice `[folds, 1 + checks]` of every start: the usual and all, or those surely better.

    Of all (start, length) the one with the largest mean gain over the usual less `SURE` standard errors (over folds),
    where that is above zero. Two folds give no error worth the name: then nothing is left.
    """
    known = curves[usual][:, -1]
    best, found = 0.0, (usual, curves[usual].shape[1] - 1)
    for name, table in curves.items():
        for check in range(table.shape[1]):
            gain = table[:, check] - known
            error = float(gain.std(correction=1)) / math.sqrt(len(gain))
            sure = float(gain.mean()) - SURE * error
            if len(gain) > 2 and sure > best:
                best, found = sure, (name, check)
    return found


def _folds(cases: list[str]) -> list[set[str]]:
    """Patients, one a fold, or dealt out to `FOLDS` groups where there are more."""
    patients = list(dict.fromkeys(cases))
    return [set(patients[number::FOLDS]) for number in range(min(FOLDS, len(patients)))]


def _rows(samples: Samples, cases: set[str]) -> Samples:
    index = [row for row, case in enumerate(samples.cases) if case in cases]
    rows = torch.tensor(index)
    names, patients = [samples.names[row] for row in index], [samples.cases[row] for row in index]
    return Samples(samples.images[rows], samples.masks[rows], names, patients)
