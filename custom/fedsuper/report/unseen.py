"""Sites that were left out of training in turn: which models they were given, and what the threshold is worth there.

Read from `unseen.json` of `fedsuper compare --leave-out` (FedSM, Table 5): `{site: {run: [{"gamma", "dice", "chosen":
{model: share}, "validated"}]}}`, one list per unseen site and trained super model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuper.errors import FedSuperError
from fedsuper.report.files import read_json_file

UNSEEN = "unseen.json"
GLOBAL = "global"


@dataclass(frozen=True)
class UnseenSite:
    """An unseen site, averaged over runs: shares of models at gamma = 0, and Dice at three thresholds.

    `at_validated` uses each run's own gamma, chosen on the sites it has seen; 0 never and 1 always is the global model.
    """

    site: str
    shares: dict[str, float]
    at_zero: float
    at_validated: float
    at_one: float


def read_unseen(folder: Path) -> list[UnseenSite]:
    """The unseen sites of a run folder; none where it left no site out."""
    path = folder / UNSEEN
    if not path.exists():
        return []
    try:
        return [_site(site, list(runs.values())) for site, runs in read_json_file(path).items() if runs]
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise FedSuperError(f"{path}: is torn ({error!r}); write it again with its run") from None


def models_of(sites: Sequence[UnseenSite]) -> list[str]:
    """Every model that was used somewhere, the global one first."""
    used = {model for site in sites for model in site.shares}
    return [GLOBAL, *sorted(used - {GLOBAL})]


def share_matrix(sites: Sequence[UnseenSite], models: Sequence[str]) -> list[list[float]]:
    """Shares by unseen site and model; NaN where the model is the unseen site's own, which does not exist."""
    return [[math.nan if model == row.site else row.shares.get(model, 0.0) for model in models] for row in sites]


def _site(site: str, runs: Sequence[Sequence[Mapping[str, Any]]]) -> UnseenSite:
    zero = [_at(points, 0.0) for points in runs]
    shares: dict[str, float] = {}
    for point in zero:
        for model, share in point["chosen"].items():
            shares[model] = shares.get(model, 0.0) + float(share) / len(runs)
    validated = [next((p for p in points if p.get("validated")), None) for points in runs]
    known = [point for point in validated if point is not None]
    return UnseenSite(site, shares, _mean(zero), _mean(known), _mean([_at(points, 1.0) for points in runs]))


def _at(points: Sequence[Mapping[str, Any]], gamma: float) -> Mapping[str, Any]:
    return next(point for point in points if point["gamma"] == gamma)


def _mean(points: Sequence[Mapping[str, Any]]) -> float:
    return math.fsum(float(point["dice"]) for point in points) / len(points) if points else math.nan
