"""`mix`: all models' probabilities, weighted by the selector's."""

from __future__ import annotations

from typing import ClassVar

import torch

from fedsuper.core.mode import MIX
from fedsuper.inference.modes.base import Mode, ModeOptions, Outcome
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch


class Mix(Mode):
    """The ensemble selector (FedSM, 3.1.1): h = sum_k q_k h_k, a mean of probabilities weighted by the selector."""

    name: ClassVar[str] = MIX

    def __init__(self, predictor: Predictor, options: ModeOptions) -> None:
        super().__init__(predictor, options)
        predictor.check_selector()

    def predict(self, batch: SliceBatch) -> Outcome:
        weights = self.voted(batch).float()
        total = torch.zeros(())
        classes, experts = self.predictor.classes, self.predictor.experts
        present = {name: weights[:, at] for at, name in enumerate(classes) if name in experts}
        for name, share in present.items():
            total = total + share[:, None, None, None] * batch.logits(name).sigmoid()
        shares = [{name: float(share[row]) for name, share in present.items()} for row in range(len(batch))]
        return Outcome(total, [self.name] * len(batch), batch.selector(), weights=shares)
