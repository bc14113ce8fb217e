"""How sure a score is: bootstrap intervals and paired tests over patients, not over slices of one patient."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

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
    """Mean difference a - b over the same images, its interval, and the p value of Wilcoxon's signed-rank test."""

    difference: Interval
    p: float
    cases: int


def bootstrap(values: Mapping[Key, float], by_site: bool, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Percentile interval of the mean over images, or (`by_site`) of the mean over sites of the sites' means.

    Whole cases are drawn with replacement within each site: images of one patient are not independent, and a
    federation's sites are given, not drawn.
    """
    rng = np.random.default_rng(seed)
    sums, counts = [], []
    means = []
    for cases in _by_site_and_case(values).values():
        totals = np.array([sum(scores) for scores in cases])
        sizes = np.array([len(scores) for scores in cases], dtype=float)
        drawn = rng.integers(len(cases), size=(resamples, len(cases)))
        sums.append(totals[drawn].sum(axis=1))
        counts.append(sizes[drawn].sum(axis=1))
        means.append((totals.sum(), sizes.sum()))
    total, count = np.stack(sums), np.stack(counts)
    if by_site:
        samples = (total / count).mean(axis=0)
        mean = float(np.mean([s / n for s, n in means]))
    else:
        samples = total.sum(axis=0) / count.sum(axis=0)
        mean = float(sum(s for s, _ in means) / sum(n for _, n in means))
    low, high = np.quantile(samples, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(mean, float(low), float(high))


def paired(a: Mapping[Key, float], b: Mapping[Key, float], resamples: int = RESAMPLES, seed: int = 0) -> Paired:
    """Compare two methods on the images both have scored; the test is over cases, each the mean of its images."""
    shared = [key for key in a if key in b]
    if not shared:
        raise ValueError("the two methods share no image")
    differences = {key: a[key] - b[key] for key in shared}
    grouped = _by_site_and_case(differences)
    per_case = np.array([np.mean(scores) for cases in grouped.values() for scores in cases])
    interval = bootstrap(differences, by_site=False, resamples=resamples, seed=seed)
    return Paired(interval, _wilcoxon(per_case), len(per_case))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction for many comparisons: adjusted p values in the given order."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, running = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def _wilcoxon(differences: np.ndarray) -> float:
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
