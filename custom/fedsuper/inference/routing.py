"""Test-time routing: tune a routed net's gates on unlabelled images and keep the state of the lowest loss (IOP-FL, III-C)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedsuper.config import RoutingConfig
from fedsuper.core.state import State
from fedsuper.core.supermodel import SuperModel
from fedsuper.inference.routing_loss import RoutingLoss
from fedsuper.models.routed import RoutedNet
from fedsuper.train.device import Compute
from fedsuper.train.seeding import generator

Progress = Callable[[int, float], None]


@dataclass
class Tuned:
    """The kept state: gates, the images' logits under it, its routing matrix; and the loss of every epoch."""

    gates: State
    logits: Tensor
    coefficients: dict[str, Tensor]
    epoch: int
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
