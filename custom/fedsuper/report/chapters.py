"""Runs gathered into chapters: those on the same data, task and sites share one table and one set of figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fedsuper.errors import FedSuperError
from fedsuper.evaluation.comparisons import Comparison, baselines_of, compare_methods
from fedsuper.evaluation.run_files.tables import Threshold
from fedsuper.report.runs import POOLED, Entry, Run, read_run

# Names as papers print them; any other method is shown as it is called.
NAMES = {
    "centralized": "Centralized",
    "local": "Local",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "scaffold": "Scaffold",
    "fedsm": "FedSM",
    "fedsm-extra": "FedSM-extra",
    "fedsm-ensemble": "FedSM-ensemble",
    "ft": "FT",
    "apfl": "APFL",
    "per-fedavg": "Per-FedAvg",
    "pfedme": "pFedMe",
    "fedrep": "FedRep",
    "fedbn": "FedBN",
    "ttt": "TTT",
    "iop-fl": "IOP-FL",
    "feddg": "FedDG",
}


@dataclass
class Chapter:
    """Runs on the same data and task: their methods share one table."""

    dataset: str
    task: dict[str, Any]
    sites: list[str]
    runs: list[Run]

    @property
    def entries(self) -> list[Entry]:
        """The methods of all runs."""
        return [entry for run in self.runs for entry in run.entries]

    @property
    def regions(self) -> list[str]:
        """What is segmented."""
        return list(self.task.get("regions", {}))

    @property
    def scored(self) -> list[Entry]:
        """The entries that have scores."""
        return [entry for entry in self.entries if entry.scores]

    @property
    def comparable(self) -> list[Entry]:
        """The entries whose averages go over the same sites: a model of one site has none of its own left out."""
        return [entry for entry in self.scored if set(entry.scores["per_site"]) == set(self.sites)]

    @property
    def images(self) -> str:
        """What was scored, in words."""
        split = self.runs[0].metrics.get("split", "test")
        return "images of the site left out" if self.unseen else "images" if split == "all" else f"{split} images"

    @property
    def unseen(self) -> dict[str, list[list[Threshold]]]:
        """The sites that were left out of training in turn, with the thresholds tried on them."""
        return {site: tried for run in self.runs for site, tried in run.unseen.items()}

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Every method against the baselines, by label: as one run wrote them, or made across several runs."""
        if len(self.runs) == 1 and "paired" in self.runs[0].metrics:
            labels = {entry.method: entry.label for entry in self.entries}
            try:
                written = [Comparison.from_json(pair) for pair in self.runs[0].metrics["paired"]]
                return [replace(found, a=labels[found.a], b=labels[found.b]) for found in written]
            except (KeyError, TypeError):  # of an earlier version
                pass
        entries = [entry for entry in self.scored if entry.images]
        first = {entry.method: entry.label for entry in reversed(entries)}
        baselines = [first[method] for method in baselines_of([entry.method for entry in entries])]
        return compare_methods({entry.label: entry.scores_by_seed() for entry in entries}, baselines)

    def against(self, entry: Entry) -> list[Comparison]:
        """An entry against each baseline."""
        return [found for found in self.comparisons if found.a == entry.label]


def read_chapters(folders: Sequence[Path]) -> list[Chapter]:
    """All runs, those with the same data set, task, sites and split together; labels are unique within a chapter."""
    if not folders:
        raise FedSuperError("report: no run given; name at least one folder that `fedsuper run` or `compare` wrote")
    chapters: dict[str, Chapter] = {}
    for run in map(read_run, dict.fromkeys(Path(folder) for folder in folders)):
        dataset, task, sites = _subject(run)
        key = repr((dataset, sorted(task.items(), key=str), sorted(sites), run.metrics.get("split", "test")))
        chapters.setdefault(key, Chapter(dataset, task, sites, [])).runs.append(run)
    for chapter in chapters.values():
        _label(chapter)
    return list(chapters.values())


def _subject(run: Run) -> tuple[str, dict[str, Any], list[str]]:
    """Data set, task and sites, from the scores or else from the super models."""
    manifests = [entry.manifest for entry in run.entries if entry.manifest]
    task: dict[str, Any] = run.metrics.get("task") or next((manifest["task"] for manifest in manifests), {})
    scored = [site for entry in run.entries for site in entry.scores.get("per_site", {})]
    apart = [manifest for manifest in manifests if manifest["method"] != POOLED] or manifests
    trained = [site for manifest in apart for site in manifest["sites"]]
    sites = list(dict.fromkeys(scored or trained))
    return str(run.metrics.get("dataset") or task.get("task") or run.folder.name), task, sites


def _label(chapter: Chapter) -> None:
    """Methods under their papers' names; one that several runs have is told apart by its run's folder."""
    times = Counter(entry.method for entry in chapter.entries)
    for entry in chapter.entries:
        # `fedsm (route)` is FedSM in another mode, `fedsm+personal=ft` FedSM with something changed.
        method = re.split("[ +]", entry.method, maxsplit=1)[0]
        name = NAMES.get(method, method) + entry.method[len(method) :].replace("+", ", ")
        entry.label = f"{name} ({entry.run.resolve().name})" if times[entry.method] > 1 else name
    again = Counter(entry.label for entry in chapter.entries)
    for number, entry in enumerate(chapter.entries, start=1):
        if again[entry.label] > 1:
            entry.label = f"{entry.label} {number}"
