"""Norm layers that take mean and variance from the test images instead of from training.

The mandatory baseline of every test-time method: on a new scanner the running statistics of BatchNorm are what fails
first, and replacing them alone often wins back what an adaptation would claim. InstanceNorm does so by nature.
"""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fedsuper.models.routed.layers import image_norm


class FreshNorm(nn.Module):
    """(x - m) / sqrt(v + eps) * weight + bias with m and v of each image, or of the batch; affine as trained."""

    def __init__(self, norm: _BatchNorm, statistics: Literal["image", "batch"]) -> None:
        super().__init__()
        self.weight, self.bias, self.eps, self.statistics = norm.weight, norm.bias, norm.eps, statistics

    def forward(self, hidden: Tensor) -> Tensor:
        if self.statistics == "batch":
            return F.batch_norm(hidden, None, None, self.weight, self.bias, training=True, eps=self.eps)
        weight, bias = (None if one is None else one[None] for one in (self.weight, self.bias))
        return image_norm(hidden, weight, bias, self.eps)


def use_test_statistics(net: nn.Module, statistics: Literal["image", "batch", "running"]) -> nn.Module:
    """Replace every BatchNorm of `net`, in place, by one with the named statistics; `running` leaves the net alone."""
    if statistics == "running":
        return net
    for parent in list(net.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _BatchNorm):
                setattr(parent, name, FreshNorm(child, statistics))
    return net
