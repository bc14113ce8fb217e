"""The paper's selector: VGG-11's convolutions with a pooled linear head.

VGG-11's own 4096-wide head holds 120M of its 129M weights and would make one FedSM round 79 times as heavy as
the U-Net it selects; pooling to one vector and a single linear layer keeps the 9.2M convolutional weights.
"""

from __future__ import annotations

import torch
from torch import nn

WIDTHS: tuple[int | str, ...] = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool")


class VGG11Selector(nn.Module):
    """Eight 3x3 convolutions in five pooled stages (VGG configuration A), global average, linear."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in WIDTHS:
            if isinstance(width, str):
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
                channels = width
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(channels, classes)
        for module in self.body:
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """The pooled embedding the linear head reads."""
        hidden: torch.Tensor = self.body(images)
        return hidden.mean(dim=(2, 3))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits over the sites."""
        logits: torch.Tensor = self.head(self.features(images))
        return logits
