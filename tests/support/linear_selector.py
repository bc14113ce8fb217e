"""A selector small enough to be solved by hand."""

from __future__ import annotations

import torch
from torch import nn


def linear_selector(classes: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Flatten(), nn.Linear(3, classes)).double()
