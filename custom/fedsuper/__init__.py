"""FedSuper: federated super models for medical image segmentation on NVIDIA FLARE.

    fedsuper.load("supermodel").predict("image.png")     fedsuper.train(study, data, out)
    fedsuper.compare(data, out, methods)                 fedsuper.doctor(root)

See docs/reference/python.md. Importing this module loads nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"
__all__ = ["__version__", "compare", "doctor", "load", "train"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fedsuper' has no attribute '{name}'")
    return getattr(importlib.import_module("fedsuper.api"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
