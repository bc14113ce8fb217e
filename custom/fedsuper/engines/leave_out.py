"""`fedsuper compare --leave-out`: train without a site, then score on it, as if the hospital had never taken part.

FedSM's Tables 5, 11 and 12 (threshold and selection frequencies on an unseen client) and IOP-FL's Table II in shape. A
super model with several experts is scored in every mode an outside hospital can choose, one with a rotation head before
and after test-time training, other methods in their own mode.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.data.layout import find_sites
from fedsuper.engines.compare import Comparison
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import ALL
from fedsuper.evaluation.evaluate import AVERAGE, ScoredImage, evaluate_modes
from fedsuper.evaluation.outside import outside_modes, score_outside
from fedsuper.evaluation.results import Scored, write_results
from fedsuper.evaluation.selection import selection_frequencies
from fedsuper.evaluation.tables import results_table
from fedsuper.files import atomic_write_json
from fedsuper.inference.gate import GRID
from fedsuper.train.device import Compute


def leave_out(what: Comparison, which: str) -> str:
    """Leave one site (or, with `all`, each in turn) out of training and score on all of its images."""
    sites = find_sites(what.data_root)
    if which != "all" and which not in sites:
        raise FedSuperError(
            f"--leave-out {which}: {what.data_root} has no such site; it has {', '.join(sites)}, or say all"
        )
    if len(sites) < 2:
        raise FedSuperError(f"--leave-out: {what.data_root} has one site; at least two are needed")
    compute = Compute.from_config(what.study.compute)
    rows: dict[tuple[str, int], list[ScoredImage]] = {}
    tables: dict[str, dict[str, Any]] = {}
    for left in sites if which == "all" else [which]:
        folder = what.out / f"without-{left}"
        rest = _root_without(what.data_root, sites, left, folder / "data")
        for name, seed, super_model in what.trained(rest, folder):
            for label, images in _scores(super_model, what.data_root, left, compute).items():
                rows.setdefault((f"{name}{label}", seed), []).extend(images)
            if super_model.mode == "select":
                gammas = threshold_table(super_model, what.data_root, left, compute)
                tables.setdefault(left, {})[f"{name}, seed {seed}"] = gammas
    atomic_write_json(what.out / "unseen.json", tables)
    scored = [Scored(method=name, seed=seed, rows=images) for (name, seed), images in rows.items()]
    return results_table(write_results(what.out, what.data_root, scored, ALL))


def _scores(super_model: SuperModel, data_root: Path, left: str, compute: Compute) -> dict[str, list[ScoredImage]]:
    """Mode label (empty where there is one mode only) to scored images."""
    if super_model.global_model is None:
        return {"": evaluate_modes(super_model, data_root, [AVERAGE], ALL, compute=compute, sites=[left])[AVERAGE]}
    modes = outside_modes(super_model) if len(super_model.experts()) > 1 else [GLOBAL, "ttt"]
    outside = [row for row in score_outside(super_model, data_root, left, modes, compute) if row.images]
    return {f" ({row.mode})" if len(outside) > 1 else "": row.images for row in outside}


def threshold_table(super_model: SuperModel, data_root: Path, left: str, compute: Compute) -> list[dict[str, Any]]:
    """FedSM's Table 5 for one unseen site: per gamma, the Dice and how often each model was chosen.

    Every gamma's result follows from two evaluations: the chosen site's model where max q > gamma, else the global one.
    """
    always = evaluate_modes(super_model, data_root, ["select"], ALL, 0.0, compute, sites=[left])["select"]
    never = evaluate_modes(super_model, data_root, [GLOBAL], ALL, compute=compute, sites=[left])[GLOBAL]
    table = []
    for gamma in GRID:
        gated = [
            site_row if max(site_row.probabilities.values()) > gamma else global_row
            for site_row, global_row in zip(always, never, strict=True)
        ]
        table.append(
            {
                "gamma": gamma,
                "dice": sum(row.mean for row in gated) / len(gated),
                "chosen": selection_frequencies(gated)[left],
                "validated": gamma == super_model.manifest["gamma"],
            }
        )
    return table


def _root_without(data_root: Path, sites: list[str], left: str, folder: Path) -> Path:
    """A data root with links to all sites but one."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(data_root / "dataset.json", folder / "dataset.json")
    for site in sites:
        link = folder / site
        if site != left and not link.is_symlink():
            os.symlink((data_root / site).resolve(), link, target_is_directory=True)
    return folder
