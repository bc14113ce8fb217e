"""The small selector: tells from an image which site took it, for a thousandth of the traffic of a VGG."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTHS = (16, 32, 64, 96)
LARGEST_INPUT = 64


class SmallSelector(nn.Module):
    """Four strided convolutions, then a linear layer on the mean and the spread of every feature map.

    What tells cameras apart is tint, vignetting, field of view and noise texture rather than anatomy. So there is no
    normalization layer: batch statistics would subtract the very site that is to be recognized (a site's batches hold
    that site alone), and instance statistics its tint. Mean and standard deviation over positions keep the texture and
    make the net independent of the input's size.
    """

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in zip((channels, *WIDTHS), WIDTHS, strict=False):
            convolution = nn.Conv2d(before, after, 3, stride=2, padding=1)
            if not convolution.weight.is_meta:  # drawing for nothing would import torch's compiler
                nn.init.kaiming_normal_(convolution.weight, a=0.1)
            layers += [convolution, nn.LeakyReLU(0.1)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(2 * WIDTHS[-1], classes)

    def features(self, x: Tensor) -> Tensor:
        """The pooled embedding (image, feature) that the head classifies."""
        height, width = (min(length, LARGEST_INPUT) for length in x.shape[-2:])
        maps = self.body(_shrunk(x, height, width))
        return torch.cat([maps.mean((2, 3)), maps.var((2, 3), unbiased=False).add(1e-6).sqrt()], 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (image, site)."""
        logits: Tensor = self.head(self.features(x))
        return logits


def _shrunk(x: Tensor, height: int, width: int) -> Tensor:
    """The mean of every cell of a grid; where cells have 2^n pixels a faster way gives the same bits."""
    down, across = x.shape[-2] // height, x.shape[-1] // width
    even = x.shape[-2] == down * height and x.shape[-1] == across * width and (down * across).bit_count() == 1
    if even and not torch.is_grad_enabled():
        return functional.avg_pool2d(x, (down, across))
    return functional.adaptive_avg_pool2d(x, (height, width))
