"""From scored images to `metrics.json` and `per_image.csv`: means over images, regions, sites and seeds.

metrics.json: `{"dataset", "task", "split", "metric", "seeds", "methods": {name: {...}}, "paired": [...]}`. A method has
`per_site` (`{site: {region: .., "mean": ..}}`), `client_avg`, `global`, `n` and `images` (`{site: n}`), `std` (over
seeds), `ci95`, `per_seed`, `mode`, `selected` (`{site: {model: share}}`) and, where it applies, `selector`
(`balanced_accuracy`, `confusion`, ...), `gamma` and `site_by_model` (`{model: {site: mean}}`).
`worst_site` is the site with the lowest mean, `boundaries` holds HD95, ASSD and surface Dice (see `boundaries`),
`measurements` the errors of clinical numbers (see `measurements`), `paired` every method against the baselines (see
`comparisons`), `per_patient` the scores of patients whose images are several files (see `patients`).

A region's score is its mean over a site's images, `mean` the mean over regions, `client_avg` the mean over sites,
`global` the mean over images; all are means over seeds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsuper.core.mode import OWN
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.task import read_task
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import CaseStore
from fedsuper.evaluation.comparisons import baselines_of, compare_methods
from fedsuper.evaluation.evaluate import evaluate, site_by_model, site_means
from fedsuper.evaluation.image_tables import Scored, measurements_csv, per_image_csv
from fedsuper.evaluation.metrics.details import detail_summary
from fedsuper.evaluation.metrics.patients import patient_summary
from fedsuper.evaluation.run_files.names import MEASUREMENTS, METRICS, PER_IMAGE
from fedsuper.evaluation.selection import selection_frequencies, selector_report
from fedsuper.evaluation.statistics import Key, bootstrap
from fedsuper.files import atomic_write_json, atomic_write_text
from fedsuper.train.device import Compute


def score(
    method: str,
    seed: int,
    super_model: SuperModel,
    store: CaseStore,
    split: str = "test",
    mode: str | None = None,
    gamma: float | None = None,
    compute: Compute | None = None,
) -> Scored:
    """Score a super model on one part of every site's split; give several models one `store` to read images once.

    Where every site predicts with a model of its own (local training), the site-by-model matrix is scored too: the
    papers' off-diagonal numbers.
    """
    name = mode or super_model.mode
    rows = evaluate(super_model, store.root, split, name, gamma, compute, store=store, detailed=True)
    notes: dict[str, Any] = {}
    if rows and rows[0].gamma is not None:
        notes["gamma"] = rows[0].gamma
    if name == OWN:
        notes["site_by_model"] = site_by_model(super_model, store, split, compute)
    return Scored(method, seed, rows, notes)


def write_results(out: Path, data_root: Path, scored: Sequence[Scored], split: str = "test") -> dict[str, Any]:
    """Write `metrics.json` and the tables of images into `out`, each whole or not at all; returns the metrics."""
    out = Path(out)
    metrics = merge_results(scored, Path(data_root).resolve().name, read_task(data_root).to_json(), split)
    atomic_write_text(out / PER_IMAGE, per_image_csv(scored))
    if any(row.detail for run in scored for row in run.rows):
        atomic_write_text(out / MEASUREMENTS, measurements_csv(scored))
    atomic_write_json(out / METRICS, metrics)
    return metrics


def merge_results(
    runs: Sequence[Scored], dataset: str, task: Mapping[str, Any] | None = None, split: str = "test"
) -> dict[str, Any]:
    """All methods and seeds of a comparison as the content of `metrics.json`."""
    if not runs:
        raise FedSuperError("no finished run to merge; at least one method and seed is needed")
    by_method: dict[str, list[Scored]] = defaultdict(list)
    for run in runs:
        by_method[run.method].append(run)
    scores = {
        method: {run.seed: {(row.site, row.case, row.image): row.mean for row in run.rows} for run in found}
        for method, found in by_method.items()
    }
    return {
        "dataset": dataset,
        "task": dict(task or {}),
        "split": split,
        "metric": "Dice of the foreground per image in its own grid (a volume is one image)",
        "seeds": sorted({run.seed for run in runs}),
        "methods": {method: summarize(found) for method, found in by_method.items()},
        "paired": [one.to_json() for one in compare_methods(scores, baselines_of(list(scores)))],
    }


def summarize(runs: Sequence[Scored]) -> dict[str, Any]:
    """One method over its seeds."""
    per_seed = {str(run.seed): _one_seed(run) for run in sorted(runs, key=lambda run: run.seed)}
    scores = mean_over_seeds(runs)
    intervals = {"client_avg": bootstrap(scores, by_site=True), "global": bootstrap(scores, by_site=False)}
    rows = [row for run in runs for row in run.rows]
    selector = selector_report(rows)
    summary: dict[str, Any] = _mean_tree(list(per_seed.values())) | {
        "n": len(scores),
        "images": dict(Counter(site for site, _, _ in scores)),
        "std": {name: _spread([one[name] for one in per_seed.values()]) for name in intervals},
        "ci95": {name: [interval.low, interval.high] for name, interval in intervals.items()},
        "per_seed": per_seed,
        "mode": rows[0].mode,
        "selected": selection_frequencies(rows),
    }
    summary |= worst_site(summary["per_site"]) | detail_summary(rows)
    return summary | ({"selector": selector} if selector else {})


def worst_site(per_site: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """The site with the lowest mean: an average hides the hospital that is served worst."""
    site = min(per_site, key=lambda name: per_site[name]["mean"])
    return {"worst_site": {"site": site, "mean": per_site[site]["mean"]}}


def mean_over_seeds(runs: Sequence[Scored]) -> dict[Key, float]:
    """Every image's mean Dice over regions and seeds."""
    collected: dict[Key, list[float]] = defaultdict(list)
    for run in runs:
        for row in run.rows:
            collected[row.site, row.case, row.image].append(row.mean)
    return {key: float(np.mean(values)) for key, values in collected.items()}


def _one_seed(run: Scored) -> dict[str, Any]:
    sites = dict.fromkeys(row.site for row in run.rows)
    means = {site: site_means([row for row in run.rows if row.site == site]) for site in sites}
    for scores in means.values():
        del scores["n"]
    selector = selector_report(run.rows)
    known = {"selector_accuracy": selector["balanced_accuracy"]} if selector else {}
    return {
        "per_site": means,
        "client_avg": float(np.mean([scores["mean"] for scores in means.values()])),
        "global": float(np.mean([row.mean for row in run.rows])),
    } | known | patient_summary(run.rows) | run.notes


def _spread(values: Sequence[float]) -> float:
    """The sample standard deviation; 0 for a single seed."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _mean_tree(trees: Sequence[Any]) -> Any:
    """The mean of numbers at equal places of equal JSON trees; a place only some trees have averages over those.

    What is not a number (a mode's name) is taken from the first tree.
    """
    first = trees[0]
    if isinstance(first, Mapping):
        keys = dict.fromkeys(key for tree in trees for key in tree)
        return {key: _mean_tree([tree[key] for tree in trees if key in tree]) for key in keys}
    if isinstance(first, (int, float)) and not isinstance(first, bool):
        return float(np.mean([tree for tree in trees if tree is not None]))
    return first
