"""A hospital outside the federation: what it gets from a super model by every way of predicting, side by side.

Modes that adapt themselves are given the hospital's images and nothing else; labels enter only when a finished
prediction is scored.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.data.task import read_task
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import ALL, CaseStore
from fedsuper.evaluation.evaluate import ScoredImage, score_cases, site_means
from fedsuper.evaluation.statistics import Interval, Key, bootstrap, paired
from fedsuper.inference.modes import AVERAGE, ORACLE, SITE_PREFIX
from fedsuper.inference.predictor import Predictor
from fedsuper.train.device import Compute

BASELINE = "global-stats"


@dataclass(frozen=True)
class OutsideRow:
    """One mode on one outside hospital; `problem` says why a mode that has no scores could not run."""

    mode: str
    images: list[ScoredImage] = field(default_factory=list)
    seconds_per_image: float = 0.0
    problem: str | None = None


def outside_modes(super_model: SuperModel) -> list[str]:
    """Every mode a hospital without labels can choose from, and the three that only labels can tell, in table order."""
    single = [f"{SITE_PREFIX}{site}" for site in super_model.sites if site in super_model.personal]
    return [GLOBAL, BASELINE, "tent", "ttt", "ensemble", AVERAGE, *single, "select", "route", ORACLE]


def score_outside(
    super_model: SuperModel,
    root: Path,
    site_folder: str,
    modes: Sequence[str] | None = None,
    compute: Compute | None = None,
) -> list[OutsideRow]:
    """All images of `ROOT/<site_folder>` in every mode of `modes` (default: `outside_modes`).

    A mode that this super model cannot offer is a row that says why, so that no row is missing.
    """
    predictor = Predictor(super_model, compute)
    if read_task(root) != predictor.task:
        raise FedSuperError(f"{root}: its task is not the super model's; use data with the same channels and regions")
    cases = CaseStore(root).cases(site_folder, ALL, predictor.study, predictor.task, predictor.preprocess)
    rows = []
    for mode in outside_modes(super_model) if modes is None else modes:
        started = time.perf_counter()
        try:
            images = score_cases(predictor, site_folder, None, cases, [mode])[mode]
        except FedSuperError as problem:
            rows.append(OutsideRow(mode, problem=str(problem)))
            continue
        rows.append(OutsideRow(mode, images, (time.perf_counter() - started) / len(cases)))
    return rows


def summarize_outside(by_seed: Mapping[int, Sequence[OutsideRow]], baseline: str = BASELINE) -> dict[str, Any]:
    """Plain JSON: per mode its mean Dice by region and over regions, intervals, and its gain over the mode `baseline`.

    Intervals are 95 % bootstrap intervals over patients, drawn within each seed: they say how sure the score is for
    these trained models, the scores by seed how much another training changes it.
    """
    order = list(dict.fromkeys(row.mode for rows in by_seed.values() for row in rows))
    found = {mode: {seed: row for seed, rows in by_seed.items() for row in rows if row.mode == mode} for mode in order}
    reference = _values(found.get(baseline, {}))
    summary: dict[str, Any] = {}
    for mode, rows in found.items():
        scored = {seed: row for seed, row in rows.items() if row.images}
        if not scored:
            summary[mode] = {"problem": next(row.problem for row in rows.values())}
            continue
        summary[mode] = _summary(scored)
        if reference and mode != baseline:
            gain = paired(_values(scored), reference)
            interval = {"mean": gain.difference.mean, "ci95": _ends(gain.difference)}
            summary[mode]["gain"] = interval | {"p": gain.p, "over": baseline}
    return summary


def _summary(scored: Mapping[int, OutsideRow]) -> dict[str, Any]:
    images = [image for row in scored.values() for image in row.images]
    means = site_means(images)
    chosen = Counter(image.chosen for image in images)
    return {
        "mean": means.pop("mean"),
        "n": means.pop("n"),
        "regions": means,
        "ci95": _ends(bootstrap(_values(scored), by_site=False)),
        "by_seed": {str(seed): site_means(row.images)["mean"] for seed, row in scored.items()},
        "seconds_per_image": sum(row.seconds_per_image for row in scored.values()) / len(scored),
        "chosen": {model: count / len(images) for model, count in sorted(chosen.items())},
    }


def outside_markdown(summary: Mapping[str, Any]) -> str:
    """The table: one line per mode, none left out."""
    scored = [entry for entry in summary.values() if "mean" in entry]
    regions, seeds = (list(scored[0][key]) if scored else [] for key in ("regions", "by_seed"))
    over = next((entry["gain"]["over"] for entry in scored if "gain" in entry), BASELINE)
    by_seed = [f"seed {seed}" for seed in seeds]
    lines = [["mode", *regions, "mean Dice (95 % interval)", f"gain over {over}", *by_seed, "s/image"]]
    lines.append(["---", *["---:"] * (len(lines[0]) - 1)])
    for mode, entry in summary.items():
        if "problem" in entry:
            lines.append([mode, *[""] * len(regions), f"not available: {entry['problem']}", *[""] * (len(seeds) + 2)])
            continue
        gain = entry.get("gain")
        lines.append([
            mode,
            *[f"{entry['regions'][region]:.3f}" for region in regions],
            f"{entry['mean']:.3f} ({entry['ci95'][0]:.3f} to {entry['ci95'][1]:.3f})",
            "" if gain is None else f"{gain['mean']:+.3f} ({gain['ci95'][0]:+.3f} to {gain['ci95'][1]:+.3f})",
            *[f"{entry['by_seed'][seed]:.3f}" if seed in entry["by_seed"] else "" for seed in seeds],
            f"{entry['seconds_per_image']:.2f}",
        ])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def _values(rows: Mapping[int, OutsideRow]) -> dict[Key, float]:
    """Mean Dice over regions of every image; the same image under two seeds' models is two observations."""
    return {(f"{image.site}, seed {seed}", image.case, image.image): image.mean
            for seed, row in rows.items() for image in row.images}


def _ends(interval: Interval) -> list[float]:
    return [interval.low, interval.high]
