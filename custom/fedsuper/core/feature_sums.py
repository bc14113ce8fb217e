"""What a site tells of its images' features: how many, their sum, and the sum of their outer products. Nothing else.

    n_k,   A_k = sum_i phi_i,   B_k = sum_i phi_i phi_i^T          float64

Sums add and subtract, so a discriminant made of them knows neither the order nor the images: a site joins by its sums
and leaves by them. Where a site wants a guarantee, `private_sums` clips every phi to a norm c and adds Gaussian noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from fedsuper.core.state import State
from fedsuper.errors import FedSuperError

# Fewer images or patients than this and the sums say too much of each: the site stays unknown to the selector.
MINIMUM_IMAGES, MINIMUM_PATIENTS = 5, 3


@dataclass(frozen=True)
class FeatureSums:
    """n, A `[d]` and B `[d, d]` of one site."""

    count: int
    total: torch.Tensor
    outer: torch.Tensor

    @classmethod
    def of(cls, features: torch.Tensor) -> FeatureSums:
        """The sums over the rows of `features`, `[n, d]`."""
        rows = features.to(torch.float64)
        return cls(len(rows), rows.sum(dim=0), rows.T @ rows)

    @classmethod
    def nothing(cls, width: int) -> FeatureSums:
        """No image at all: what adds nothing."""
        zero = torch.zeros(width, dtype=torch.float64)
        return cls(0, zero, torch.outer(zero, zero))

    def __add__(self, other: FeatureSums) -> FeatureSums:
        return FeatureSums(self.count + other.count, self.total + other.total, self.outer + other.outer)

    def __sub__(self, other: FeatureSums) -> FeatureSums:
        if other.count > self.count:
            raise FedSuperError(f"feature sums: cannot take {other.count} images away from {self.count}")
        return FeatureSums(self.count - other.count, self.total - other.total, self.outer - other.outer)

    @property
    def width(self) -> int:
        """Features per image."""
        return len(self.total)

    @property
    def mean(self) -> torch.Tensor:
        """m = A / n."""
        return self.total / self.count

    @property
    def covariance(self) -> torch.Tensor:
        """B / n - m m^T."""
        return self.outer / self.count - torch.outer(self.mean, self.mean)

    def to_state(self) -> State:
        """As named tensors, for the wire and for disk."""
        return {"count": torch.tensor(self.count), "total": self.total, "outer": self.outer}

    @classmethod
    def from_state(cls, state: State, who: str, width: int | None = None) -> FeatureSums:
        """The inverse of `to_state`; what cannot be sums of features is refused with the sender's name."""
        try:
            count, total, outer = int(state["count"]), state["total"].double(), state["outer"].double()
        except (KeyError, ValueError, RuntimeError):
            raise FedSuperError(f"{who}: its feature sums need count, total and outer; "
                                "install the same FedSuper everywhere") from None
        size = len(total) if total.dim() == 1 else -1
        if size < 1 or outer.shape != (size, size) or (width is not None and size != width):
            raise FedSuperError(f"{who}: its feature sums are {tuple(total.shape)} and {tuple(outer.shape)}, expected "
                                f"({width or 'd'},) and its square; it measures other features")
        if count < 0 or not bool(torch.isfinite(total).all() and torch.isfinite(outer).all()):
            raise FedSuperError(f"{who}: its feature sums are negative in number or not finite; look at its images")
        return cls(count, total, outer)


def private_sums(features: torch.Tensor, clip: float, noise: float, random: torch.Generator) -> FeatureSums:
    """Sums of clipped features under the Gaussian mechanism, `noise` times their sensitivity.

    |phi| <= c, so one image moves (A / c, B / c^2) by at most sqrt(2). Noise of that size times `noise` is added to
    both; `epsilon` says what it buys. The count is not hidden: the server knows every site's number of images anyway.
    """
    rows = features.to(torch.float64)
    rows = rows * (clip / rows.norm(dim=1, keepdim=True).clamp(min=1e-12)).clamp(max=1)
    sums = FeatureSums.of(rows)
    scale = noise * math.sqrt(2)
    total = torch.randn(sums.total.shape, generator=random, dtype=torch.float64) * scale * clip
    upper = (torch.randn(sums.outer.shape, generator=random, dtype=torch.float64) * scale * clip**2).triu()
    outer = upper + upper.triu(1).T
    return FeatureSums(sums.count, sums.total + total, sums.outer + outer)


def epsilon(noise: float, delta: float) -> float:
    """The least epsilon of (epsilon, delta)-privacy under Gaussian noise of `noise` sensitivities (Balle, Wang 2018).

    delta(e) = Phi(1 / 2z - e z) - exp(e) Phi(-1 / 2z - e z) falls in e: it is solved by halving an interval.
    """
    if noise <= 0:
        return math.inf

    def spent(e: float) -> float:
        return _normal(0.5 / noise - e * noise) - math.exp(e) * _normal(-0.5 / noise - e * noise)

    low, high = 0.0, 1.0
    while spent(high) > delta and high < 500:
        high *= 2
    if spent(low) <= delta:
        return 0.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) > delta else (low, middle)
    return high


def _normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2
