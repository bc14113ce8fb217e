"""How good a mask is likely to be, without its label: a ridge regression of Dice on what a mask looks like.

Every site sends the sums of z = (psi, Dice) over its validation images, psi of each model's mask there (`FeatureSums`):
n, sum z and sum z z^T hold all that a regression needs, and all that judging one takes. With standardized psi

    w = (S_pp + lambda I)^-1 S_py,      predicted Dice = y + w (psi - p)

sites weighted alike, lambda by leaving one site out after the other. The error on the site left out, which is that at
a hospital nobody has seen, gives the interval: `HALF_WIDTHS` times its root mean square, either way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fedsuper.core.feature_sums import FeatureSums

PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
HALF_WIDTHS = 1.645  # of a normal error: nine in ten lie within
FEWEST_SITES = 3  # one to leave out and two to learn from
FLAT = 1e-3  # a feature that hardly varies is not blown up to unit variance


@dataclass(frozen=True)
class QualityModel:
    """Predicted Dice = `bias` + `weights` . psi, clipped to [0, 1]; `error` is its root mean square at a new site."""

    weights: list[float]
    bias: float
    error: float
    penalty: float
    sites: int

    def estimate(self, features: torch.Tensor) -> tuple[float, float, float]:
        """Predicted Dice of the mask with these features and its interval: value, low, high."""
        value = self.bias + float(features.double() @ torch.tensor(self.weights, dtype=torch.float64))
        half = HALF_WIDTHS * self.error
        low, middle, high = (min(1.0, max(0.0, one)) for one in (value - half, value, value + half))
        return middle, low, high

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> QualityModel:
        """The inverse of `vars`."""
        return cls(
            weights=[float(one) for one in told["weights"]],
            bias=float(told["bias"]),
            error=float(told["error"]),
            penalty=float(told["penalty"]),
            sites=int(told["sites"]),
        )


def fit_quality(sums: Sequence[FeatureSums]) -> QualityModel | None:
    """The regression of the sites' sums of (psi, Dice); None where too few sites sent any."""
    known = [each for each in sums if each.count > 0]
    if len(known) < FEWEST_SITES:
        return None
    errors = []
    for penalty in PENALTIES:
        left_out = [_error(_ridge([*known[:at], *known[at + 1:]], penalty), one) for at, one in enumerate(known)]
        errors.append(math.fsum(left_out) / len(known))
    least = min(range(len(PENALTIES)), key=lambda at: (errors[at], -at))
    weights, bias = _ridge(known, PENALTIES[least])
    return QualityModel(weights.tolist(), bias, math.sqrt(errors[least]), PENALTIES[least], len(known))


def _ridge(sums: Sequence[FeatureSums], penalty: float) -> tuple[torch.Tensor, float]:
    """Weights and bias for psi as it is; sites count alike."""
    mean = torch.stack([each.mean for each in sums]).mean(dim=0)
    second = torch.stack([each.outer / each.count for each in sums]).mean(dim=0)
    joint = second - torch.outer(mean, mean)
    scale = joint.diagonal()[:-1].clamp(min=0).sqrt().clamp(min=FLAT)
    within = joint[:-1, :-1] / torch.outer(scale, scale)
    across = joint[:-1, -1] / scale
    weights = torch.linalg.solve(within + penalty * torch.eye(len(scale), dtype=torch.float64), across) / scale
    return weights, float(mean[-1] - weights @ mean[:-1])


def _error(model: tuple[torch.Tensor, float], sums: FeatureSums) -> float:
    """Mean squared error at a site, from its sums: of r = y - w psi - b the mean of r^2."""
    weights, bias = model
    direction = torch.cat([-weights, torch.ones(1, dtype=torch.float64)])
    first, second = float(direction @ sums.mean), float(direction @ (sums.outer / sums.count) @ direction)
    return max(0.0, second - 2 * bias * first + bias**2)
