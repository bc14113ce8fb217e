"""Every method against the baselines a reader cares about: one definition of "difference", used everywhere.

A difference is that of the client averages on the images both methods scored: every image averaged over the seeds both
have (over its own, where they share none), then over a site's images, then over sites. Its 95% interval draws whole
patients with replacement within sites.
It is *clear* if that interval leaves out zero and Wilcoxon's signed-rank test over patients, corrected for all
comparisons of the table (Holm), stays below 0.05. At a single site the interval alone decides, and fewer than six
patients never do: with so few no order of signs is rarer than 1 in 20.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from fedsuper.evaluation.statistics import Interval, Key, holm, paired

BASELINES = ("fedavg", "local", "centralized")
FEWEST_CASES = 6
CLEAR = 0.05
BETTER, WORSE, OPEN, EQUAL, FEW = "better", "worse", "open", "equal", "few"
SMALLEST = 0.0005  # an interval closer to zero shows as 0.000 at both ends: nobody gains or loses by it

Scores = Mapping[int, Mapping[Key, float]]  # seed -> image -> mean Dice over regions


@dataclass(frozen=True)
class Difference:
    """a - b at one place: its mean, 95% interval and the number of patients behind it."""

    mean: float
    low: float
    high: float
    cases: int

    @property
    def verdict(self) -> str:
        """`better`, `worse`, `open`, `equal` (on every image), or `few` where patients are too few to say."""
        if self.mean == self.low == self.high == 0:
            return EQUAL
        if self.cases < FEWEST_CASES:
            return FEW
        if max(abs(self.low), abs(self.high)) < SMALLEST:
            return OPEN
        return BETTER if self.low > 0 else WORSE if self.high < 0 else OPEN


@dataclass(frozen=True)
class Comparison:
    """Method `a` against the baseline `b`."""

    a: str
    b: str
    overall: Difference
    per_site: dict[str, Difference]
    effect: float
    p: float
    p_holm: float = 1.0
    per_seed: dict[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """As of a difference; besides its interval the corrected test must agree."""
        found = self.overall.verdict
        return OPEN if found in (BETTER, WORSE) and self.p_holm >= CLEAR else found

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds; None of a single one."""
        return float(np.std(list(self.per_seed.values()), ddof=1)) if len(self.per_seed) > 1 else None

    def sites(self, sign: int) -> int:
        """At how many sites the mean is higher (1) or lower (-1)."""
        return sum(sign * difference.mean > 0 for difference in self.per_site.values())

    def clear_sites(self, sign: int) -> int:
        """At how many sites it is clearly higher (1) or lower (-1)."""
        wanted = BETTER if sign > 0 else WORSE
        return sum(difference.verdict == wanted for difference in self.per_site.values())

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, as in `metrics.json`."""
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Comparison:
        """What `to_json` wrote."""
        places = {site: Difference(**difference) for site, difference in value["per_site"].items()}
        return Comparison(**{**value, "overall": Difference(**value["overall"]), "per_site": places})


def baselines_of(methods: Sequence[str]) -> list[str]:
    """What the others are held against: FedAvg, every site alone, pooled data, as far as they are there.

    Where none is, the first row stands in: the one that changes nothing (`fedsm` beside `fedsm+lambda=0.3`) or that
    asks the global model alone.
    """
    found = [name for name in BASELINES if name in methods]
    if found or not methods:
        return found
    variants = [row for row in methods if row.partition("+")[0] in BASELINES or row.endswith("(global)")]
    return [*variants, *methods][:1]


def compare_methods(scores: Mapping[str, Scores], baselines: Sequence[str]) -> list[Comparison]:
    """Every method against every baseline with which it shares an image, corrected over all of them."""
    found = []
    for b in baselines:
        for a in scores:
            comparison = _compare(a, b, scores[a], scores[b]) if a != b else None
            found += [comparison] if comparison else []
    adjusted = holm([comparison.p for comparison in found])
    return [replace(comparison, p_holm=p) for comparison, p in zip(found, adjusted, strict=True)]


def _compare(a: str, b: str, of_a: Scores, of_b: Scores) -> Comparison | None:
    if not any(seed in of_b for seed in of_a):  # trained with other seeds: each is averaged over its own
        of_a, of_b = {0: _over_seeds(of_a)}, {0: _over_seeds(of_b)}
    seeds = [seed for seed in of_a if seed in of_b]
    keys = [key for key in of_a[seeds[0]] if all(key in of_a[s] and key in of_b[s] for s in seeds)]
    if not keys:
        return None
    test = paired(_mean(of_a, seeds, keys), _mean(of_b, seeds, keys))
    by_seed = {str(s): _client_average({key: of_a[s][key] - of_b[s][key] for key in keys}) for s in seeds}
    places = {site: _difference(interval, test.cases_per_site[site]) for site, interval in test.per_site.items()}
    overall = _difference(test.difference, test.cases)
    return Comparison(a, b, overall, places, test.effect, test.p, per_seed=by_seed)


def _difference(interval: Interval, cases: int) -> Difference:
    return Difference(interval.mean, interval.low, interval.high, cases)


def _mean(scores: Scores, seeds: Sequence[int], keys: Sequence[Key]) -> dict[Key, float]:
    return {key: float(np.mean([scores[seed][key] for seed in seeds])) for key in keys}


def _over_seeds(scores: Scores) -> dict[Key, float]:
    """Every image that all seeds have scored."""
    shared = [key for key in next(iter(scores.values())) if all(key in found for found in scores.values())]
    return _mean(scores, list(scores), shared)


def _client_average(values: Mapping[Key, float]) -> float:
    by_site: dict[str, list[float]] = {}
    for (site, _, _), value in values.items():
        by_site.setdefault(site, []).append(value)
    return float(np.mean([np.mean(found) for found in by_site.values()]))
