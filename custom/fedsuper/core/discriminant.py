"""The closed-form selector: linear discriminant analysis of the sites, from sums alone. No gradient, no round.

Features are standardized by the pooled moments. With m_k a site's mean and C the mean of the sites' covariances (sites
weighted alike, so that a large one does not decide what is usual):

    C_s = (1 - s) C + s tr(C)/d I,     P = C_s^-1
    logit_k(phi) = m_k^T P phi - m_k^T P m_k / 2,       q = softmax(logit / T)
    d(phi) = min_k (phi - m_k)^T P (phi - m_k)          how far from every site that trained

s and T are chosen on validation images (`core.calibration`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.state import State
from fedsuper.errors import FedSuperError

# A feature that is the same in every image of every site (the mean after z-scoring) still tells an image that differs:
# its scale is not zero but this share of its size.
CONSTANT = 1e-3
# Directions with less than this share of the largest variance count as none where nothing is shrunk (s = 0).
SINGULAR = 1e-12


@dataclass(frozen=True)
class Discriminant:
    """`shift` and `scale` standardize a feature; `means` `[K, d]` and `precision` `[d, d]` live in that space.

    `known` `[K]` marks the classes with a mean; the others can be neither near nor chosen.
    """

    shift: torch.Tensor
    scale: torch.Tensor
    means: torch.Tensor
    precision: torch.Tensor
    known: torch.Tensor
    temperature: float = 1.0

    def standardize(self, features: torch.Tensor) -> torch.Tensor:
        """z = (phi - shift) / scale, float64."""
        return (features.to(torch.float64) - self.shift) / self.scale

    def logits(self, features: torch.Tensor) -> torch.Tensor:
        """`[N, K]`, not divided by the temperature; -inf for a class nobody described."""
        pulled = self.means @ self.precision
        offset = (pulled * self.means).sum(dim=1) / 2
        found = self.standardize(features) @ pulled.T - offset
        return found.masked_fill(~self.known, -torch.inf)

    def posterior(self, features: torch.Tensor) -> torch.Tensor:
        """q `[N, K]` = softmax(logits / T)."""
        return (self.logits(features) / self.temperature).softmax(dim=1)

    def distances(self, features: torch.Tensor) -> torch.Tensor:
        """Squared Mahalanobis distance per feature to every class, `[N, K]`; +inf for a class nobody described."""
        away = self.standardize(features)[:, None, :] - self.means
        found = ((away @ self.precision) * away).sum(dim=2) / len(self.shift)
        return found.clamp(min=0).masked_fill(~self.known, torch.inf)


def discriminant(sums: Sequence[FeatureSums], shrinkage: float, temperature: float = 1.0) -> Discriminant:
    """The discriminant of classes 0 to K-1; one without images (count 0) stays unknown."""
    if not 0 <= shrinkage <= 1 or not temperature > 0:
        raise FedSuperError(f"closed-form selector: shrinkage {shrinkage} must lie in [0, 1] and temperature "
                            f"{temperature} above 0")
    known = torch.tensor([each.count > 0 for each in sums])
    if not bool(known.any()):
        raise FedSuperError("closed-form selector: no site sent its feature sums; see the sites' messages")
    present = [each for each in sums if each.count > 0]
    means = torch.stack([each.mean for each in present])
    within = _nonnegative(torch.stack([each.covariance for each in present]).mean(dim=0))
    shift = means.mean(dim=0)
    spread = within.diagonal() + (means - shift).square().mean(dim=0)
    scale = spread.clamp(min=0).sqrt().maximum(CONSTANT * shift.abs().clamp(min=1))
    within = within / torch.outer(scale, scale)
    size = len(shift)
    shrunk = (1 - shrinkage) * within + shrinkage * within.trace() / size * torch.eye(size, dtype=torch.float64)
    placed = torch.zeros(len(sums), size, dtype=torch.float64)
    placed[known] = (means - shift) / scale
    return Discriminant(shift, scale, placed, _inverse(shrunk), known, temperature)


def nearest_classes(sums: Sequence[FeatureSums] | None, label: int, count: int) -> list[int]:
    """The other classes, nearest mean first: sum_f (m_kf - m_f)^2 / C_ff, C the mean of the sites' covariances.

    Classes without sums come last, in a circle from `label` on, so that none of them is everybody's neighbor.
    """
    circle = [(label + step) % count for step in range(1, count)]
    if sums is None or not sums[label].count:
        return circle
    known = [other for other in circle if sums[other].count]
    within = torch.stack([sums[k].covariance.diagonal() for k in (label, *known)]).mean(dim=0)
    scale = within.clamp(min=0).maximum((CONSTANT * sums[label].mean).square().clamp(min=CONSTANT**2))
    away = {k: float(((sums[k].mean - sums[label].mean).square() / scale).sum()) for k in known}
    return sorted(known, key=lambda k: away[k]) + [other for other in circle if other not in away]


def _nonnegative(matrix: torch.Tensor) -> torch.Tensor:
    """Noise on the sums may push eigenvalues below zero, which no covariance has: they become zero."""
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    restored: torch.Tensor = (vectors * values.clamp(min=0)) @ vectors.T
    return restored


def _inverse(matrix: torch.Tensor) -> torch.Tensor:
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    inverted = torch.where(values > SINGULAR * values[-1].clamp(min=SINGULAR), 1 / values, torch.zeros_like(values))
    result: torch.Tensor = (vectors * inverted) @ vectors.T
    return result


def pack_sums(sums: Sequence[FeatureSums]) -> State:
    """All sites' sums in label order as one state: what the super model keeps of them."""
    return {
        "count": torch.tensor([each.count for each in sums]),
        "total": torch.stack([each.total for each in sums]),
        "outer": torch.stack([each.outer for each in sums]),
    }


def pack_means(sums: Sequence[FeatureSums]) -> State:
    """What a discriminant needs of them, in K d + d^2 numbers instead of K d^2: the means, and C."""
    known = [each.covariance for each in sums if each.count]
    return {
        "count": torch.tensor([each.count for each in sums]),
        "total": torch.stack([each.total for each in sums]),
        "within": torch.stack(known).mean(dim=0),
    }


def unpack_sums(state: State) -> list[FeatureSums]:
    """The inverse of `pack_sums`; of `pack_means` sums with the same means and C for every site's covariance."""
    if "within" in state:
        counts, totals, within = state["count"].tolist(), state["total"], state["within"]
        return [FeatureSums(int(n), total, n * within + torch.outer(total, total) / n) if n
                else FeatureSums.nothing(len(total)) for n, total in zip(counts, totals, strict=True)]
    rows = zip(state["count"].tolist(), state["total"], state["outer"], strict=True)
    return [FeatureSums(int(count), total, outer) for count, total, outer in rows]
