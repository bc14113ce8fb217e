"""psi: what a mask and its probabilities look like, six numbers a region.

Per region, over all slices of an image, with p the probabilities and m = [p > .5]:

    2 sum p m / (sum p + sum m)     the Dice that the net itself expects of m
    sum p m / sum m                 its confidence inside
    undecided pixels (.1 < p < .9) as a share of the region
    square root of the region's share of the image
    the share of the largest piece
    the border's length against that of a square of the same area
"""

from __future__ import annotations

import math

import torch

from fedsuper.core.validated.one_piece import islands

PER_REGION = 6


def mask_features(probabilities: torch.Tensor) -> torch.Tensor:
    """psi of one image's probabilities `[Z, R, S, S]`: float64 `[6 R]`."""
    return torch.cat([_region(probabilities[:, region].double()) for region in range(probabilities.shape[1])])


def _region(p: torch.Tensor) -> torch.Tensor:
    m = (p > 0.5).double()
    area, inside, side = float(m.sum()), float((p * m).sum()), p.shape[-1]
    undecided = float(((p > 0.1) & (p < 0.9)).double().sum())
    border = float(m.diff(dim=1).abs().sum() + m.diff(dim=2).abs().sum())
    apart = float(islands(m.bool().numpy()).sum())
    return torch.tensor([
        (2 * inside + 1e-6) / (float(p.sum()) + area + 1e-6),
        (inside + 0.5) / (area + 1),
        min(undecided / (area + side), 3.0),
        math.sqrt(area / m.numel()),
        0.0 if area == 0 else 1 - apart / area,
        min(border / (4 * math.sqrt(area * len(p)) + 1), 5.0),
    ], dtype=torch.float64)
