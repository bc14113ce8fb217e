"""Which of a few models each site is handed, when a site's own validation images are too few to say it alone.

A site tells the mean Dice of every candidate over its n_k validation patients and their covariance. For candidates
a and b, with m_k the mean paired difference at site k and s^2 its variance between patients, pooled over sites,

    v_k = s^2 / n_k,          tau^2 = max(0, (Q - (K - 1)) / (sum u - sum u^2 / sum u)),    u_k = 1 / v_k
    mu = sum w_k m_k / sum w, w_k = 1 / (v_k + tau^2),    e^2 = 1 / sum w
    m*_k = B_k mu + (1 - B_k) m_k,   e*_k^2 = (1 - B_k) v_k + B_k^2 e^2,   B_k = v_k / (v_k + tau^2)

where Q = sum u_k (m_k - sum u m / sum u)^2: DerSimonian and Laird's random effects, and what they leave to believe of
site k (empirical Bayes). The common choice is the candidate of the greatest mu, or the first in the order of preference
that it does not lead clearly, by more than `CLEAR` errors. A site leaves the common choice for the greatest m*_k over
it that is as clear, where sites differ at all (tau^2 > 0): a lead on a handful of images is shrunk to what the other
sites saw, a lead on many is not.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch

CLEAR = 2.0
WIDEST = 0.5  # no covariance of numbers between 0 and 1 is beyond it
LEAST_VARIANCE = 1e-12  # of Dice: a millionth squared, below which nothing varies


@dataclass(frozen=True)
class Figures:
    """A site's aggregates: mean Dice of every candidate, the covariance between patients, how many there are."""

    mean: Sequence[float]
    spread: Sequence[Sequence[float]]
    count: int

    @classmethod
    def of(cls, dice: torch.Tensor) -> Figures:
        """From Dice `[candidates, patients]`; the covariance of one patient is told as zero."""
        dice = dice.double()
        away = dice - dice.mean(dim=1, keepdim=True)
        spread = away @ away.T / max(1, dice.shape[1] - 1)
        return cls(dice.mean(dim=1).tolist(), spread.tolist(), dice.shape[1])

    def lead(self, one: int, other: int) -> float:
        """m_k: by how much the first is above the second."""
        return self.mean[one] - self.mean[other]

    def variance(self, one: int, other: int) -> float:
        """Of that difference, between patients."""
        return max(0.0, self.spread[one][one] + self.spread[other][other] - 2 * self.spread[one][other])


@dataclass(frozen=True)
class Pooled:
    """A difference on average (mu, its error e), what is believed of each site (m*_k, e*_k), and tau^2."""

    mean: float
    error: float
    at: Sequence[float]
    errors: Sequence[float]
    between: float


@dataclass(frozen=True)
class Choice:
    """The candidate taken, by site in the order given; of each site by how much it leads `common`, and the error."""

    common: int
    taken: Sequence[int]
    lead: Sequence[float]
    error: Sequence[float]


def patient_means(dice: torch.Tensor, cases: Sequence[Hashable]) -> torch.Tensor:
    """Of images `[images]` the mean over each patient's, which are not independent."""
    return torch.stack([dice[[at for at, other in enumerate(cases) if other == case]].mean()
                        for case in dict.fromkeys(cases)])


def pooled(told: Sequence[Figures], one: int, other: int) -> Pooled:
    """The difference of two candidates over all sites, see above."""
    leads = [each.lead(one, other) for each in told]
    degrees = sum(each.count - 1 for each in told)
    if degrees > 0:
        within = math.fsum((each.count - 1) * each.variance(one, other) for each in told) / degrees
    else:  # a patient a site: nothing says what is chance, so all of it may be
        middle = math.fsum(leads) / len(leads)
        within = math.fsum((lead - middle) ** 2 for lead in leads) / max(1, len(leads) - 1)
    noise = [max(LEAST_VARIANCE, within) / each.count for each in told]
    between = _between(leads, noise)
    weights = [1 / (one_noise + between) for one_noise in noise]
    mean, error2 = _mean(leads, weights), 1 / math.fsum(weights)
    kept = [one_noise / (one_noise + between) for one_noise in noise]
    at = [share * mean + (1 - share) * lead for share, lead in zip(kept, leads, strict=True)]
    errors = [math.sqrt((1 - share) * one_noise + share**2 * error2)
              for share, one_noise in zip(kept, noise, strict=True)]
    return Pooled(mean, math.sqrt(error2), at, errors, between)


def choose(told: Sequence[Figures]) -> Choice:
    """What every site is handed, candidates being in the order of preference."""
    common, _ = common_choice(told, CLEAR)
    rivals = {candidate: pooled(told, candidate, common) for candidate in range(len(told[0].mean))
              if candidate != common}
    taken, lead, error = [], [], []
    for at in range(len(told)):
        clear = {candidate: seen.at[at] for candidate, seen in rivals.items()
                 if seen.between > 0 and seen.at[at] > CLEAR * seen.errors[at]}
        first = max(clear, key=lambda candidate: clear[candidate]) if clear else common
        taken.append(first)
        lead.append(clear.get(first, 0.0))
        error.append(rivals[first].errors[at] if first in clear else 0.0)
    return Choice(common, taken, lead, error)


def common_choice(told: Sequence[Figures], tie: float) -> tuple[int, int]:
    """What is taken for all sites, and the best: the greatest mu, or the first candidate within `tie` errors of it."""
    count = len(told[0].mean)
    means = [0.0, *(pooled(told, candidate, 0).mean for candidate in range(1, count))]
    best = max(range(count), key=lambda candidate: means[candidate])
    ahead = [pooled(told, best, candidate) for candidate in range(count)]
    taken = next(at for at, lead in enumerate(ahead) if at == best or lead.mean <= tie * lead.error)
    return taken, best


def _between(leads: Sequence[float], noise: Sequence[float]) -> float:
    """tau^2 by DerSimonian and Laird's moments; nothing of one site."""
    weights = [1 / one for one in noise]
    total = math.fsum(weights)
    scale = total - math.fsum(weight**2 for weight in weights) / total
    if len(leads) < 2 or scale <= 0:
        return 0.0
    middle = _mean(leads, weights)
    q = math.fsum(weight * (lead - middle) ** 2 for weight, lead in zip(weights, leads, strict=True))
    found = (q - (len(leads) - 1)) / scale
    return found if found > LEAST_VARIANCE else 0.0  # rounding is no difference of sites


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return math.fsum(weight * value for weight, value in zip(weights, values, strict=True)) / math.fsum(weights)
