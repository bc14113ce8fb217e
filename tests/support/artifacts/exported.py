"""Exported nets, loaded as their users load them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

# A segmentation net gives logits, a selector its probabilities and the model's place.
Run = Callable[[torch.Tensor], Any]


def load_program(path: Path) -> Run:
    """A `.pt2` program."""
    return torch.export.load(path).module()


def load_onnx(path: Path) -> Run:
    """An ONNX file, in onnxruntime."""
    session = pytest.importorskip("onnxruntime").InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(x: torch.Tensor) -> Any:
        outputs = [torch.from_numpy(np.asarray(each)) for each in session.run(None, {"image": x.numpy()})]
        return outputs[0] if len(outputs) == 1 else outputs

    return run
