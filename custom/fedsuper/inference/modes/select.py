"""`select`: the selector names the site of an image, a gate the model: FedSM's threshold, or the best expected Dice."""

from __future__ import annotations

from typing import ClassVar

import torch

from fedsuper.core.mode import GLOBAL, SELECT
from fedsuper.core.supermodel import gate
from fedsuper.core.validated.selection_choice import Selection
from fedsuper.inference.modes.base import Mode, ModeOptions, Outcome
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.cost_gate import ExpectedDiceGate
from fedsuper.inference.selection.familiarity import Familiarity
from fedsuper.inference.slice_batch import SliceBatch

# Used where a super model brings no gamma of its own (a federation whose sites all failed to report the curve).
DEFAULT_GAMMA = 0.9


class Select(Mode):
    """FedSM, Algorithm 2: the model of site argmax_k q_k where max_k q_k > gamma, else the global one.

    With `selector.gate: expected-dice` the model of best expected Dice instead, unless a gamma is given.
    """

    name: ClassVar[str] = SELECT

    def __init__(self, predictor: Predictor, options: ModeOptions) -> None:
        super().__init__(predictor, options)
        predictor.check_selector()
        self.selection = options.selection or predictor.selection
        self.weighed = ExpectedDiceGate.of(predictor, self.selection) if options.gamma is None else None
        self.judge = None if self.weighed is None else Familiarity.of(predictor)

    @property
    def gamma(self) -> float | None:
        """None where the model of best expected Dice is taken: no threshold has a say."""
        if self.weighed is not None:
            return None
        return gamma_of(self.predictor, self.selection) if self.options.gamma is None else self.options.gamma

    def predict(self, batch: SliceBatch) -> Outcome:
        voted = self.voted(batch)
        chosen = self.choose(voted) if self.weighed is None else self.weighed.choose(voted, self._foreign(batch))
        return by_expert(batch, chosen, batch.selector(self.selection.kind))

    def _foreign(self, batch: SliceBatch) -> torch.Tensor | None:
        """Whether each slice's image is nobody's kind, None where the super model cannot tell."""
        if self.judge is None:
            return None
        return self.judge.foreign_at(batch.distances(self.judge)).repeat_interleave(torch.tensor(batch.sizes))

    def choose(self, q: torch.Tensor) -> list[str]:
        """The model of each row of probabilities; the global one stands in for one that was not handed over here."""
        sites = self.predictor.super_model.sites
        assert self.gamma is not None
        picked = gate(q[:, -len(sites):], self.gamma)
        return [here_or_global(self.predictor, sites[index] if index >= 0 else GLOBAL) for index in picked.tolist()]


def here_or_global(predictor: Predictor, name: str) -> str:
    """A model's name, if it is here."""
    return name if name in predictor.experts else GLOBAL


def gamma_of(predictor: Predictor, selection: Selection | None = None) -> float:
    """The super model's own threshold, or the one that belongs to another selector of it."""
    manifest = predictor.super_model.manifest
    found = manifest.get("gamma")
    if selection is not None and selection.kind != predictor.selection.kind:
        found = manifest.get("selectors", {}).get(selection.kind, {}).get("gamma")
    return DEFAULT_GAMMA if found is None else float(found)


def by_expert(batch: SliceBatch, chosen: list[str], q: torch.Tensor | None) -> Outcome:
    """Run each expert once, on the slices that chose it."""
    if len(set(chosen)) == 1:  # nothing to gather, nothing to put back
        return Outcome(batch.logits(chosen[0]).sigmoid_(), chosen, q)
    regions = len(batch.predictor.task.regions)
    probabilities = torch.empty(len(batch), regions, *batch.images.shape[-2:])
    for name in dict.fromkeys(chosen):
        rows = torch.tensor([row for row, choice in enumerate(chosen) if choice == name])
        probabilities[rows] = batch.logits(name, rows).sigmoid_()
    return Outcome(probabilities, chosen, q)
