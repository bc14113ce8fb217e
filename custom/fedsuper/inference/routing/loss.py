"""The unsupervised loss that tunes the routing at a hospital without labels (IOP-FL, Eq. 7 to 10).

    L = a_c mean_pixels ||p - p'||^2 + a_s mean_pixels d + a_e mean_pixels H

p and p' are the region probabilities of the image and of the image plus noise, d the spread of p in a square
neighborhood, H its entropy; all three are summed over regions. Eq. 9 prints sums over pixels: at beta = .01 those
would outweigh the consistency term by the number of pixels, so means are used throughout.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsuper.config import RoutingConfig


def consistency(probabilities: Tensor, noisy: Tensor) -> Tensor:
    """Eq. 7: the squared distance of the two predictions at a pixel, averaged over pixels."""
    return (probabilities - noisy).square().sum(1).mean()


def spread(probabilities: Tensor, radius: int) -> Tensor:
    """Eq. 8: max - min of each region's probability over the square of that radius around every pixel, `[N, R, H, W]`.

    The maximum over a square is the maximum over columns of the maximum over rows: two one-dimensional windows give the
    same bits as the square for a fraction of its cost. The window is cut off at the image's border.
    """
    both = torch.cat([probabilities, -probabilities])
    rows = _highest_in_columns(both.mT, radius).mT
    highest, minus_lowest = _highest_in_columns(rows, radius).chunk(2)
    return highest + minus_lowest


def _highest_in_columns(maps: Tensor, radius: int) -> Tensor:
    """The maximum of `[N, R, H, W]` over the pixels up to `radius` above and below.

    A column is laid out as the channel of a channels-last image: torch then takes many columns at a time, where along
    rows it takes pixel by pixel, eight times as long. Values and gradients are the same bits.
    """
    images, regions, height, width = maps.shape
    columns = maps.reshape(images * regions, height, 1, width).movedim(3, 1)
    highest = F.max_pool2d(columns, (2 * radius + 1, 1), stride=1, padding=(radius, 0))
    return highest.movedim(1, 3).reshape(maps.shape)


def entropy(logits: Tensor) -> Tensor:
    """H = -p log p - (1 - p) log(1 - p) of each region at each pixel, in [0, log 2], from logits without overflow."""
    return F.softplus(logits) - logits * torch.sigmoid(logits)


@dataclass(frozen=True)
class RoutingLoss:
    """The weighted sum of the terms; a weight of zero leaves the term uncomputed."""

    consistency: float
    shape: float
    entropy: float
    radius: int
    batch_sum: bool = False

    @classmethod
    def from_config(cls, config: RoutingConfig) -> RoutingLoss:
        """1, beta, beta (Eq. 10) unless `weights` are given."""
        weights = config.weights or (1.0, config.beta, config.beta)
        return cls(
            consistency=weights[0] * config.consistency,
            shape=weights[1] * config.shape,
            entropy=weights[2] * config.entropy,
            radius=config.radius,
            batch_sum=config.batch_sum,
        )

    def __call__(self, logits: Tensor, noisy_logits: Tensor) -> Tensor:
        """Eq. 10 for logits `[N, R, H, W]` of images and of the same images with noise."""
        logits, noisy_logits = logits.float(), noisy_logits.float()
        probabilities = torch.sigmoid(logits)
        total = logits.new_zeros(())
        if self.consistency:
            total = total + self.consistency * consistency(probabilities, torch.sigmoid(noisy_logits))
        if self.shape:
            total = total + self.shape * spread(probabilities, self.radius).sum(1).mean()
        if self.entropy:
            images = len(logits) if self.batch_sum else 1
            total = total + self.entropy * images * entropy(logits).sum(1).mean()
        return total
