"""From a run's folder to what the report tells of it.

Only files are read. Whatever is not there is left out of the report; whatever is there but torn is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fedsuper.errors import FedSuperError
from fedsuper.evaluation.run_files.names import METRICS
from fedsuper.evaluation.run_files.records import (
    Manifests,
    read_comparison,
    read_manifests,
    read_metrics,
    read_study_file,
    told_by_sites,
)
from fedsuper.evaluation.run_files.tables import ImageRow, Threshold, read_images, read_unseen
from fedsuper.evaluation.statistics import Key

POOLED, ALONE = "centralized", "local"
REFERENCES = (POOLED, ALONE)
# Ways of scoring that are no way of predicting: the best model by label, and the mean of all models' scores.
BOUNDS = ("(oracle)", "(average)")


@dataclass
class Entry:
    """One method of one run: its scores, and the manifests of its super models by seed."""

    label: str
    method: str
    run: Path
    scores: dict[str, Any] = field(default_factory=dict)
    manifests: dict[int, dict[str, Any]] = field(default_factory=dict)
    images: list[ImageRow] = field(default_factory=list)

    @property
    def reference(self) -> bool:
        """Not a federated method but something to hold one against: pooled data, every site alone, a bound."""
        return self.method.partition("+")[0] in REFERENCES or self.bound

    @property
    def bound(self) -> bool:
        """No way of predicting: it needs the labels."""
        return self.method.endswith(BOUNDS)

    @property
    def histories(self) -> list[list[dict[str, Any]]]:
        """The round-by-round records, one per seed."""
        return [manifest["history"] for manifest in self.manifests.values() if manifest.get("history")]

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the first seed; empty where the super model is not there."""
        return next(iter(self.manifests.values()), {})

    def scores_by_seed(self) -> dict[int, dict[Key, float]]:
        """Seed -> image -> mean Dice over regions."""
        found: dict[int, dict[Key, float]] = {}
        for row in self.images:
            found.setdefault(row.seed, {})[row.site, row.case, row.image] = row.mean
        return found


@dataclass
class Run:
    """One run folder: the content of `metrics.json`, the study, and an entry per method."""

    folder: Path
    metrics: dict[str, Any]
    study: dict[str, Any]
    entries: list[Entry]

    @cached_property
    def unseen(self) -> dict[str, list[list[Threshold]]]:
        """The sites left out of training in turn, with the thresholds tried on them."""
        return read_unseen(self.folder)


def read_run(folder: Path) -> Run:
    """One folder of `fedsuper run` or `fedsuper compare`."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FedSuperError(f"{folder}: there is no such folder; give one that `fedsuper run` or `compare` wrote")
    metrics, comparison, manifests = read_metrics(folder), read_comparison(folder), read_manifests(folder)
    scores = metrics.get("methods", {}) if metrics else _told_by_sites(manifests)
    if not scores and not manifests:
        raise FedSuperError(f"{folder}: holds neither {METRICS} nor a super model; give the folder of a finished run")
    images = read_images(folder)
    order = dict.fromkeys([*comparison.get("methods", []), *scores, *manifests])
    by_method: dict[str, list[ImageRow]] = {name: [] for name in order}
    for row in images:
        by_method.setdefault(row.method, []).append(row)
    entries = [
        Entry(name, name, folder, scores.get(name, {}), manifests.get(name, {}), by_method[name])
        for name in order
        if name in scores or name in manifests
    ]
    return Run(folder, metrics, comparison.get("study") or read_study_file(folder), entries)


def _told_by_sites(manifests: Manifests) -> dict[str, dict[str, Any]]:
    """Without `metrics.json` (production: nobody sees all images) the mean scores that each site sent of its own."""
    scores = {}
    for method, by_seed in manifests.items():
        told = told_by_sites(next(iter(by_seed.values())))
        images = {site: int(means.pop("n")) for site, means in told.items()}
        if told and sum(images.values()):
            scores[method] = {
                "per_site": told,
                "client_avg": sum(means["mean"] for means in told.values()) / len(told),
                "global": sum(means["mean"] * images[site] for site, means in told.items()) / sum(images.values()),
                "n": sum(images.values()),
                "images": images,
            }
    return scores
