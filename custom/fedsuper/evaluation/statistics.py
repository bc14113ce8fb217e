"""How sure a score is: bootstrap intervals and paired tests over patients, not over slices of one patient."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Key = tuple[str, str, str]  # site, case, image
RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean and its bootstrap percentile interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Paired:
    """Difference a - b over the same images.

    `difference` is that of the client averages: every site's mean difference over its images, then the mean over
    sites. `per_site` holds the sites' own. `effect` is the matched-pairs rank-biserial correlation and `p` the p value
    of Wilcoxon's signed-rank test, both over cases, each the mean of its images.
    """

    difference: Interval
    per_site: dict[str, Interval]
    cases_per_site: dict[str, int]
    effect: float
    p: float

    @property
    def cases(self) -> int:
        """Patients that both have scored."""
        return sum(self.cases_per_site.values())


@dataclass(frozen=True)
class _Drawn:
    """A site's sums and counts of images: as they are, and in every resample."""

    total: float
    count: float
    totals: NDArray[np.float64]
    counts: NDArray[np.float64]

    def interval(self) -> Interval:
        return _interval(self.total / self.count, self.totals / self.counts)


def bootstrap(values: Mapping[Key, float], by_site: bool, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Percentile interval of the mean over images, or (`by_site`) of the mean over sites of the sites' means.

    Whole cases are drawn with replacement within each site: images of one patient are not independent, and a
    federation's sites are given, not drawn.
    """
    drawn = list(_draw(_by_site_and_case(values), resamples, seed).values())
    if by_site:
        return _client_average(drawn)
    samples = np.sum([site.totals for site in drawn], axis=0) / np.sum([site.counts for site in drawn], axis=0)
    return _interval(sum(site.total for site in drawn) / sum(site.count for site in drawn), samples)


def paired(a: Mapping[Key, float], b: Mapping[Key, float], resamples: int = RESAMPLES, seed: int = 0) -> Paired:
    """Compare two methods on the images both have scored."""
    shared = [key for key in a if key in b]
    if not shared:
        raise ValueError("the two methods share no image")
    grouped = _by_site_and_case({key: a[key] - b[key] for key in shared})
    drawn = _draw(grouped, resamples, seed)
    per_case = np.array([np.mean(scores) for cases in grouped.values() for scores in cases])
    return Paired(
        _client_average(list(drawn.values())),
        {site: of_site.interval() for site, of_site in drawn.items()},
        {site: len(cases) for site, cases in grouped.items()},
        rank_biserial(per_case),
        _wilcoxon(per_case),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction for many comparisons: adjusted p values in the given order."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, running = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def rank_biserial(differences: NDArray[np.float64]) -> float:
    """(R+ - R-) / (R+ + R-), R the sums of ranks of |d| over positive and negative differences; 0 where all are 0.

    +1: a is higher on every case; 0: as often and as much lower as higher.
    """
    from scipy.stats import rankdata

    moved = differences[differences != 0]
    if not len(moved):
        return 0.0
    ranks = rankdata(np.abs(moved))
    return float((ranks[moved > 0].sum() - ranks[moved < 0].sum()) / ranks.sum())


def _draw(grouped: Mapping[str, list[list[float]]], resamples: int, seed: int) -> dict[str, _Drawn]:
    rng = np.random.default_rng(seed)
    found = {}
    for site, cases in grouped.items():
        totals = np.array([sum(scores) for scores in cases], dtype=float)
        sizes = np.array([len(scores) for scores in cases], dtype=float)
        drawn = rng.integers(len(cases), size=(resamples, len(cases)))
        sums = totals[drawn].sum(axis=1), sizes[drawn].sum(axis=1)
        found[site] = _Drawn(float(totals.sum()), float(sizes.sum()), *sums)
    return found


def _client_average(drawn: Sequence[_Drawn]) -> Interval:
    samples = np.mean([site.totals / site.counts for site in drawn], axis=0)
    return _interval(float(np.mean([site.total / site.count for site in drawn])), samples)


def _interval(mean: float, samples: NDArray[np.float64]) -> Interval:
    low, high = np.quantile(samples, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(mean, float(low), float(high))


def _wilcoxon(differences: NDArray[np.float64]) -> float:
    """Two-sided; equal scores everywhere are no evidence at all, so p = 1."""
    if not np.any(differences):
        return 1.0
    from scipy.stats import wilcoxon

    return float(wilcoxon(differences, zero_method="pratt").pvalue)


def _by_site_and_case(values: Mapping[Key, float]) -> dict[str, list[list[float]]]:
    grouped: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (site, case, _), value in values.items():
        grouped[site][case].append(value)
    return {site: list(cases.values()) for site, cases in grouped.items()}
