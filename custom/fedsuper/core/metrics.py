"""Dice, once, for validation during training and for the final scores."""

from __future__ import annotations

import torch


def dice_scores(predicted: torch.Tensor, true: torch.Tensor) -> torch.Tensor:
    """2 |A and B| / (|A| + |B|) per image and region of boolean masks [N, R, ...]; foreground only.

    Two empty masks agree: 1. One empty mask: 0.
    """
    axes = tuple(range(2, predicted.dim()))
    predicted, true = predicted.bool(), true.bool()
    overlap = (predicted & true).sum(dim=axes).double()
    total = predicted.sum(dim=axes).double() + true.sum(dim=axes).double()
    return torch.where(total > 0, 2 * overlap / total.clamp(min=1), torch.ones_like(total))
