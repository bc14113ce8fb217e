"""Losses of the segmentation models: one sigmoid output per region."""

from __future__ import annotations

import torch
import torch.nn.functional as F

SMOOTH = 1.0


def dice_loss(logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """1 - (2 sum p y + s) / (sum p + sum y + s) per image and region, averaged.

    s = 1 pixel: an image without the region then still pulls the prediction towards empty, where the usual
    s = 1e-5 has no gradient.
    """
    probabilities = torch.sigmoid(logits.float())
    overlap = (probabilities * masks).sum(dim=(2, 3))
    total = probabilities.sum(dim=(2, 3)) + masks.sum(dim=(2, 3))
    return (1 - (2 * overlap + SMOOTH) / (total + SMOOTH)).mean()


def dice_bce_loss(logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """Dice loss plus pixel-wise cross-entropy."""
    return dice_loss(logits, masks) + F.binary_cross_entropy_with_logits(logits.float(), masks)


LOSSES = {"dice": dice_loss, "dice-bce": dice_bce_loss}
