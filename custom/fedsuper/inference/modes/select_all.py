"""`select-all`: the likeliest of all models, the global one among them (FedSM-extra)."""

from __future__ import annotations

from typing import ClassVar

import torch

from fedsuper.core.mode import GLOBAL, SELECT_ALL
from fedsuper.errors import FedSuperError
from fedsuper.inference.modes.base import ModeOptions
from fedsuper.inference.modes.select import Select
from fedsuper.inference.predictor import Predictor


class SelectAll(Select):
    """FedSM-extra: argmax over the global model (index 0) and the sites, without a threshold."""

    name: ClassVar[str] = SELECT_ALL

    def __init__(self, predictor: Predictor, options: ModeOptions) -> None:
        super().__init__(predictor, options)
        if GLOBAL not in predictor.classes:
            raise FedSuperError("mode select-all needs a selector that knows the global model as a class "
                                "(FedSM-extra); use --mode select")

    @property
    def gamma(self) -> None:
        return None

    def choose(self, q: torch.Tensor) -> list[str]:
        classes = self.predictor.classes
        return [classes[index] for index in q.argmax(dim=1).tolist()]
