"""The closed-form selector as a net: images in, log-probabilities of the sites out, like the trained selectors."""

from __future__ import annotations

import torch
from torch import nn

from fedsuper.core.discriminant import Discriminant
from fedsuper.models.features import ImageFeatures


class MeanSelector(nn.Module):
    """Two selectors of the same classes as one: the log of the mean of their probabilities."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """`[N, K]`; a class that both exclude is left without any probability."""
        first: torch.Tensor = self.first(images).double().softmax(dim=1)
        second: torch.Tensor = self.second(images).double().softmax(dim=1)
        return ((first + second) / 2).log()

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """What both see, side by side: `[N, d]`."""
        return torch.cat([net.features(images).double() for net in (self.first, self.second)], dim=1)  # type: ignore[operator]


class StatisticsSelector(nn.Module):
    """log softmax of the discriminant's logits of phi(x), phi given by `extractor`.

    Not one weight of it is trained: the extractor reads with the global model, the rest are the sites' sums.
    """

    shift: torch.Tensor
    scale: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor
    unknown: torch.Tensor

    def __init__(self, extractor: ImageFeatures, discriminant: Discriminant) -> None:
        super().__init__()
        self.extractor = extractor
        pulled = discriminant.means @ discriminant.precision
        entries = {
            "shift": discriminant.shift,
            "scale": discriminant.scale,
            "weight": pulled / discriminant.temperature,
            "bias": -(pulled * discriminant.means).sum(dim=1) / 2 / discriminant.temperature,
            "unknown": ~discriminant.known,
        }
        for name, tensor in entries.items():
            self.register_buffer(name, tensor)

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """phi(x), standardized: `[N, d]`, float64."""
        found: torch.Tensor = self.extractor(images)
        return (found.double() - self.shift) / self.scale

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """`[N, K]`; -inf for a site that sent no sums."""
        logits = self.features(images) @ self.weight.T + self.bias
        return logits.masked_fill(self.unknown, -torch.inf).log_softmax(dim=1)
