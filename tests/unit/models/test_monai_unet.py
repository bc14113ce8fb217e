"""FedSuper's own code of MONAI's U-Net is MONAI's U-Net: names, first weights, results and gradients, to the bit."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from torch import nn

from fedsuper.models.build import build_segmentation
from fedsuper.models.nets.unet import UNetSettings


@pytest.mark.parametrize("norm", ["instance", "batch"])
@pytest.mark.parametrize(("channels", "strides", "units"), [
    ((4, 8), None, 0), ((4, 8, 8), (2, 1), 0), ((4, 6, 8), None, 1), ((4, 8, 16), (1, 2), 2), ((4, 4, 4, 4), None, 3),
])
def test_they_are_one_net(norm: Any, channels: tuple[int, ...], strides: Any, units: int) -> None:
    settings = UNetSettings(channels=channels, strides=strides, residual_units=units, norm=norm)
    package, _, name = settings.target.rpartition(".")
    torch.manual_seed(3)
    ours = build_segmentation(settings, 3, 2)
    torch.manual_seed(3)
    theirs: nn.Module = getattr(importlib.import_module(package), name)(**settings.arguments(3, 2))
    assert [entry for entry, _ in ours.state_dict().items()] == list(theirs.state_dict())
    assert all(torch.equal(value, theirs.state_dict()[entry]) for entry, value in ours.state_dict().items())
    images = torch.randn(2, 3, 16, 16)
    for net in (ours, theirs):
        net.train()(images).square().mean().backward()
    assert torch.equal(ours(images), theirs(images))
    for (entry, one), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert one.grad is not None and other.grad is not None and torch.equal(one.grad, other.grad), entry
    assert torch.equal(ours.eval()(images), theirs.eval()(images))
    order = [[entry for entry, part in net.named_modules() if hasattr(part, "stride")] for net in (ours, theirs)]
    assert order[0] == order[1], "routing numbers the convolutions in this order"
