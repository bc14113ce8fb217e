"""`ensemble`: the personalized models' mean, the same for every image."""

from __future__ import annotations

from typing import ClassVar

import torch

from fedsuper.inference.modes.base import Mode, Outcome, score_models
from fedsuper.inference.slice_batch import SliceBatch


class Ensemble(Mode):
    """sigmoid of the mean LOGITS of the personalized models, as in IOP-FL (of the global one if there are none)."""

    name: ClassVar[str] = "ensemble"

    def predict(self, batch: SliceBatch) -> Outcome:
        names = score_models(self.predictor)
        mean = torch.zeros(())
        for name in names:
            mean = mean + batch.logits(name) / len(names)
        shares = [dict.fromkeys(names, 1 / len(names))] * len(batch)
        return Outcome(mean.sigmoid(), [self.name] * len(batch), self.told_sites(batch), weights=shares)
