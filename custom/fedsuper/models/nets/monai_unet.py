"""MONAI's U-Net without MONAI: the same modules under the same names, drawn in the same order.

Importing MONAI costs a process two to three seconds of processor time and 2,000 modules, and every simulated client is
a process. The net itself is 60 lines. Names, first weights and results are MONAI's to the bit (a test holds the two
side by side), so that an exported net still names `monai.networks.nets.UNet` and models move both ways.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


def _norm(kind: str, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels) if kind == "batch" else nn.InstanceNorm2d(channels)


class Unit(nn.Sequential):
    """A convolution, up where `transposed`, then norm and PReLU; MONAI calls the last two `adn`."""

    def __init__(
        self, inputs: int, outputs: int, stride: int, norm: str, transposed: bool = False, bare: bool = False
    ) -> None:
        super().__init__()
        self.conv: nn.Module = (
            nn.ConvTranspose2d(inputs, outputs, 3, stride, padding=1, output_padding=stride - 1) if transposed
            else nn.Conv2d(inputs, outputs, 3, stride, padding=1)
        )
        if not bare:
            self.adn = nn.Sequential()
            self.adn.add_module("N", _norm(norm, outputs))
            self.adn.add_module("A", nn.PReLU())


class Residual(nn.Module):
    """`count` units with a shortcut around them; the shortcut convolves where size or width changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: str, count: int, bare: bool = False) -> None:
        super().__init__()
        self.conv = nn.Sequential()
        self.residual: nn.Module = nn.Identity()
        for index in range(count):
            first, last = index == 0, index == count - 1
            unit = Unit(inputs if first else outputs, outputs, stride if first else 1, norm, bare=bare and last)
            self.conv.add_module(f"unit{index}", unit)
        if stride != 1:
            self.residual = nn.Conv2d(inputs, outputs, 3, stride, padding=1)
        elif inputs != outputs:
            self.residual = nn.Conv2d(inputs, outputs, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The units' output plus the shortcut's."""
        shortcut: torch.Tensor = self.residual(images)
        changed: torch.Tensor = self.conv(images)
        return changed + shortcut


class Skip(nn.Module):
    """A module's output beside its input."""

    def __init__(self, submodule: nn.Module) -> None:
        super().__init__()
        self.submodule = submodule

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Twice the planes: what came in, then what the module made of it."""
        return torch.cat([images, self.submodule(images)], dim=1)


class MonaiUNet(nn.Module):
    """Levels inside each other, each a way down, the next level with a skip around it, and a way up."""

    def __init__(
        self, in_channels: int, out_channels: int, channels: Sequence[int], strides: Sequence[int],
        num_res_units: int, norm: str, spatial_dims: int = 2,
    ) -> None:
        super().__init__()
        assert spatial_dims == 2, "slices are 2D"
        self.units = num_res_units
        self.kind = norm
        self.model = self._level(in_channels, out_channels, list(channels), list(strides), True)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits per region at the input's size."""
        logits: torch.Tensor = self.model(images)
        return logits

    def _level(self, inputs: int, outputs: int, widths: list[int], strides: list[int], top: bool) -> nn.Module:
        """Inner levels are made first: the random numbers of the first weights are drawn in MONAI's order."""
        width, stride = widths[0], strides[0]
        if len(widths) > 2:
            inner, joined = self._level(width, width, widths[1:], strides[1:], False), 2 * width
        else:
            inner, joined = self._down(width, widths[1], 1), width + widths[1]
        down = self._down(inputs, width, stride)
        return nn.Sequential(down, Skip(inner), self._up(joined, outputs, stride, top))

    def _down(self, inputs: int, outputs: int, stride: int) -> nn.Module:
        if self.units:
            return Residual(inputs, outputs, stride, self.kind, self.units)
        return Unit(inputs, outputs, stride, self.kind)

    def _up(self, inputs: int, outputs: int, stride: int, top: bool) -> nn.Module:
        up = Unit(inputs, outputs, stride, self.kind, transposed=True, bare=top and not self.units)
        return nn.Sequential(up, Residual(outputs, outputs, 1, self.kind, 1, bare=top)) if self.units else up
