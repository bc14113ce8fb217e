"""From settings to nets, and the weights every model of a study starts from."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn

from fedsuper.core.state import State, clone
from fedsuper.errors import FedSuperError
from fedsuper.models.net import NetSettings
from fedsuper.models.registry import SELECTORS


class NamesSelector(Protocol):
    """Settings that say which selector net is meant."""

    @property
    def net(self) -> str: ...


def build_segmentation(config: NetSettings, channels: int, regions: int) -> nn.Module:
    """A 2D net from `channels` input planes to one logit map per region."""
    return _module(config.built_by or config.target, **config.arguments(channels, regions))


def build_selector(config: NamesSelector, channels: int, classes: int) -> nn.Module:
    """The classifier that tells which site an image resembles."""
    if classes < 1:
        raise FedSuperError(f"selector: at least one site is needed, got {classes}")
    return _module(SELECTORS[config.net], channels=channels, classes=classes)


def first_weights(build: Callable[[], nn.Module], seed: int) -> State:
    """The seeded starting point; the caller's random state is left as it was.

    All personalized models and the global model start here: averages of models with different starts mean nothing.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return clone(build().state_dict())


def _module(target: str, **arguments: Any) -> nn.Module:
    package, _, name = target.rpartition(".")
    net: nn.Module = getattr(importlib.import_module(package), name)(**arguments)
    return net
