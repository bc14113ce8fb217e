"""Every method of both papers, one file each. A new method is one file and one line here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from fedsuper.errors import FedSuperError

if TYPE_CHECKING:
    from fedsuper.config import Strict, Study
    from fedsuper.methods.base import Method

# Names before classes: the study is checked against them without importing torch.
METHODS: dict[str, str] = {
    "centralized": "fedsuper.methods.centralized:Centralized",
    "local": "fedsuper.methods.local:Local",
    "fedavg": "fedsuper.methods.fedavg:FedAvg",
    "fedsm": "fedsuper.methods.fedsm:FedSM",
}


def method_class(name: str) -> type[Method]:
    """The class behind a method's name."""
    if name not in METHODS:
        raise FedSuperError(f"method '{name}' is not known; known methods: {', '.join(METHODS)}")
    module, _, attribute = METHODS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def method_knobs(name: str) -> type[Strict]:
    """The knobs a study may set under a method's name."""
    return method_class(name).Knobs


def create_method(study: Study) -> Method:
    """The study's method, ready to run."""
    return method_class(study.method)(study)
