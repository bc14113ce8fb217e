"""What happened round by round, read from the histories that super models carry.

An entry of round r holds scores of the models that were sent out at its start, that is, after r - 1 rounds; the
horizontal axis counts rounds completed. A site that missed a round keeps its last score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

History = Sequence[Mapping[str, Any]]
PERSONAL, SELECTOR = "personal", "selector"  # roles


@dataclass(frozen=True)
class Curve:
    """A client-average score over completed rounds: as measured, and best so far (what would be handed over)."""

    label: str
    method: str
    role: str
    rounds: list[int]
    mean: list[float]
    best: list[float]


def site_scores(history: History, role: str, region: str | None = None) -> tuple[list[int], dict[str, list[float]]]:
    """Completed rounds and every site's score of a role, gaps filled with the site's last one (NaN before its first).

    `val/<role>`, or `val-region/<role>/<region>` of one region.
    """
    key = f"val/{role}" if region is None else f"val-region/{role}/{region}"
    entries = [entry for entry in history if any(_number(m.get(key)) is not None for m in entry["sites"].values())]
    sites = sorted({site for entry in entries for site, metrics in entry["sites"].items() if key in metrics})
    scores: dict[str, list[float]] = {}
    for site in sites:
        last = math.nan
        scores[site] = []
        for entry in entries:
            fresh = _number(entry["sites"].get(site, {}).get(key))
            last = last if fresh is None else fresh
            scores[site].append(last)
    return [int(entry["round"]) - 1 for entry in entries], scores


def roles_of(history: History) -> list[str]:
    """The roles that were validated, in the order in which they first appear."""
    found: dict[str, None] = {}
    for entry in history:
        for metrics in entry["sites"].values():
            found |= {key.removeprefix("val/"): None for key in metrics if key.startswith("val/")}
    return list(found)


def validation_curve(
    histories: Sequence[History], method: str, role: str, label: str, per_site: bool, region: str | None = None
) -> Curve | None:
    """The client average of `role`, averaged over seeds; a seed that stopped earlier keeps its last value.

    Best so far is taken per site where each site keeps its own best (`per_site`), of the average otherwise.
    """
    tracks: list[tuple[list[int], list[float], list[float]]] = []
    for history in histories:
        rounds, scores = site_scores(history, role, region)
        if not rounds:
            continue
        mean = _mean_by_round(scores.values())
        best = _mean_by_round(map(_running_best, scores.values())) if per_site else _running_best(mean)
        tracks.append((rounds, mean, best))
    if not tracks:
        return None
    rounds = max((track[0] for track in tracks), key=len)
    return Curve(label, method, role, rounds, _over_seeds([t[1] for t in tracks]), _over_seeds([t[2] for t in tracks]))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _running_best(values: Sequence[float]) -> list[float]:
    better: Callable[[float, float], float] = lambda best, value: value if math.isnan(best) or value > best else best  # noqa: E731
    return list(accumulate(values, better))


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan


def _mean_by_round(tracks: Iterable[Sequence[float]]) -> list[float]:
    return [_mean(values) for values in zip(*tracks, strict=True)]


def _over_seeds(tracks: list[list[float]]) -> list[float]:
    length = max(map(len, tracks))
    return _mean_by_round(track + track[-1:] * (length - len(track)) for track in tracks)
