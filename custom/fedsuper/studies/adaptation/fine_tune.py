"""A model of its own for a hospital with a few labels: start and length of the fine-tuning by leave-one-out.

A patient is left out, the others train, the Dice on the patient left out is noted after every `CHECK_STEPS` steps; the
mean of these curves over patients says which start and how many steps serve images that were not trained on. Then all
labels train for that long. No steps at all is among the choices: labels may teach nothing, but then do no harm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from fedsuper.core.metrics import dice_scores
from fedsuper.core.state import State
from fedsuper.data.prepared.samples import Samples
from fedsuper.inference.predictor import Predictor
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.models.build import build_segmentation
from fedsuper.train.learner import Learner, make_optimizer
from fedsuper.train.loop import BatchSource, run_epochs
from fedsuper.train.loop import predict as forward
from fedsuper.train.losses import LOSSES

CHECK_STEPS = 10
FOLDS = 10  # at most so many patients, or groups of patients, are left out in turn
FINALISTS = 2  # starts that are tried with training: the best as they are, and the even mixture


@dataclass(frozen=True)
class Fitted:
    """The hospital's model and how it was found: `before` and `after` are Dice on patients left out."""

    state: State
    start: str
    steps: int
    before: float
    after: float
    starts: dict[str, float]


class FineTuning:
    """Fine-tunes a super model's weights on `samples`, for at most `checks` times `CHECK_STEPS` steps."""

    def __init__(self, predictor: Predictor, samples: Samples, checks: int, seed: int) -> None:
        self.predictor = predictor
        self.samples = samples
        self.checks = checks
        self.seed = seed

    def fit(self, starts: Mapping[str, State], favored: str, note: Callable[[str], None]) -> Fitted:
        """The best start and length by leave-one-out, then all labels."""
        asis = {name: self._score(state, self.samples) for name, state in starts.items()}
        ranked = sorted(asis, key=lambda name: -asis[name])[:FINALISTS]
        finalists = list(dict.fromkeys([*ranked, *([favored] if favored in starts else [])]))
        curves = {}
        for name in finalists:
            curves[name] = self._leave_one_out(starts[name])
            note(f"start {name}: Dice {curves[name][0]:.3f} as it is, {max(curves[name]):.3f} fine-tuned (left out)")
        start = max(curves, key=lambda name: (max(curves[name]), curves[name][0]))
        curve = curves[start]
        best = curve.index(max(curve))
        state = self._train(starts[start], self.samples, best, "all")
        return Fitted(state, start, best * CHECK_STEPS, curve[0], curve[best], asis)

    def _leave_one_out(self, start: State) -> list[float]:
        """Mean Dice on what was left out, before training and after each check."""
        folds = _folds(self.samples.cases)
        curves = []
        for number, fold in enumerate(folds):
            held = _rows(self.samples, fold)
            rest = _rows(self.samples, set(self.samples.cases) - fold)
            states = [start]
            self._train(start, rest, self.checks, f"fold-{number}", states.append)
            curves.append([self._score(state, held) for state in states])
        return [math.fsum(values) / len(values) for values in zip(*curves, strict=True)]

    def _train(
        self, start: State, samples: Samples, checks: int, purpose: str, seen: Callable[[State], None] | None = None
    ) -> State:
        predictor, study = self.predictor, self.predictor.study
        net = build_segmentation(study.model, predictor.channels, len(predictor.task.regions))
        net.load_state_dict(start)
        net = predictor.compute.place_net(net)
        optimizer = make_optimizer(list(net.parameters()), study.optimizer)
        learner = Learner(PERSONAL, net, optimizer, LOSSES[study.loss], predictor.compute)
        names = (self.seed, "adapt", purpose)
        source = BatchSource(samples, study.batch_size, study.augment, predictor.compute, names)
        epochs = math.ceil(CHECK_STEPS / math.ceil(len(samples) / study.batch_size))
        for _ in range(checks):
            run_epochs([learner], source, epochs)
            if seen is not None:
                seen(learner.state())
        return learner.state()

    def _score(self, state: State, samples: Samples) -> float:
        """Mean Dice over images and regions."""
        net = build_segmentation(self.predictor.study.model, self.predictor.channels, samples.masks.shape[1])
        net.load_state_dict(state)
        logits = forward(self.predictor.compute.place_net(net), samples.images, self.predictor.compute)
        return float(dice_scores(logits > 0, samples.masks).mean())


def _folds(cases: list[str]) -> list[set[str]]:
    """Patients, one a fold, or dealt out to `FOLDS` groups where there are more."""
    patients = list(dict.fromkeys(cases))
    return [set(patients[number::FOLDS]) for number in range(min(FOLDS, len(patients)))]


def _rows(samples: Samples, cases: set[str]) -> Samples:
    index = [row for row, case in enumerate(samples.cases) if case in cases]
    rows = torch.tensor(index)
    names, patients = [samples.names[row] for row in index], [samples.cases[row] for row in index]
    return Samples(samples.images[rows], samples.masks[rows], names, patients)
