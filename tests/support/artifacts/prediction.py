"""Random images, and a mode run on them."""

from __future__ import annotations

import torch

from fedsuper.core.supermodel import SuperModel
from fedsuper.inference.modes.base import ModeOptions, Outcome, create_mode
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.train.device import Compute

CPU = Compute(torch.device("cpu"))


def images(count: int, seed: int = 0, channels: int = 3) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(count, channels, 32, 32, generator=random) * torch.rand(count, 1, 1, 1, generator=random) * 3


def run(model: SuperModel, mode: str | None, cases: list[torch.Tensor], **options: object) -> Outcome:
    predictor = Predictor(model, CPU)
    return create_mode(predictor, mode, ModeOptions(**options)).predict(SliceBatch(predictor, cases))  # type: ignore[arg-type]
