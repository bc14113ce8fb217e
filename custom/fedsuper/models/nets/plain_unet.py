"""The plain U-Net of IOP-FL (32..512 with BatchNorm): double convolutions, max-pooling, transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from fedsuper.models.net import LeveledNet, Norm


class PlainUNetSettings(LeveledNet):
    """IOP-FL's net; every step down is a max-pooling by two."""

    target: ClassVar[str] = "fedsuper.models.nets.plain_unet.PlainUNet"

    name: Literal["plain-unet"] = "plain-unet"
    norm: Norm = "instance"

    def arguments(self, inputs: int, outputs: int) -> dict[str, Any]:
        return {"inputs": inputs, "outputs": outputs, "channels": list(self.channels), "norm": self.norm}

    def convolutions(self) -> int:
        return 4


def _norm(kind: str, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels) if kind == "batch" else nn.InstanceNorm2d(channels, affine=True)


def _double_conv(inputs: int, outputs: int, norm: str) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        _norm(norm, outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        _norm(norm, outputs),
        nn.ReLU(),
    )


class PlainUNet(nn.Module):
    """Encoder and decoder of double convolutions with skip connections and a 1x1 output layer."""

    def __init__(
        self, inputs: int, outputs: int, channels: Sequence[int] = (32, 64, 128, 256, 512), norm: str = "batch"
    ):
        super().__init__()
        widths = list(channels)
        self.encoder = nn.ModuleList(_double_conv(a, b, norm) for a, b in pairwise([inputs, *widths]))
        self.pool = nn.MaxPool2d(2)
        down = list(reversed(widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in pairwise(down))
        self.decoder = nn.ModuleList(_double_conv(2 * b, b, norm) for _, b in pairwise(down))
        self.head = nn.Conv2d(widths[0], outputs, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits per region at the input's size."""
        skips = []
        hidden = images
        for level, block in enumerate(self.encoder):
            hidden = block(hidden if level == 0 else self.pool(hidden))
            skips.append(hidden)
        for up, block, skip in zip(self.up, self.decoder, reversed(skips[:-1]), strict=True):
            hidden = block(torch.cat([skip, up(hidden)], dim=1))
        logits: torch.Tensor = self.head(hidden)
        return logits
