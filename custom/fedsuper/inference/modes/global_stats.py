"""`global-stats`: the global model with each test image's own norm statistics, the baseline of every adapting mode."""

from __future__ import annotations

from typing import ClassVar

import torch

from fedsuper.core.mode import GLOBAL
from fedsuper.inference.modes.base import Mode, ModeOptions, Outcome
from fedsuper.inference.norm_statistics import use_test_statistics
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.train.loop import predict


class GlobalStatistics(Mode):
    """BatchNorm's running statistics fail first on a new scanner; what replacing them alone wins back is this row."""

    name: ClassVar[str] = "global-stats"

    def __init__(self, predictor: Predictor, options: ModeOptions) -> None:
        super().__init__(predictor, options)
        self.net = use_test_statistics(predictor.build(GLOBAL), "image")

    @torch.no_grad()
    def predict(self, batch: SliceBatch) -> Outcome:
        logits = predict(self.net, batch.images, self.predictor.compute)
        return Outcome(logits.sigmoid(), [self.name] * len(batch))
