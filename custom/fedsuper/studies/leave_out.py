"""`fedsuper compare --leave-out`: train without a site, then score on it, as if the hospital had never taken part.

FedSM's Tables 5, 11 and 12 (threshold and selection frequencies on an unseen client) and IOP-FL's Table II in shape. A
super model with several experts is scored in every mode an outside hospital can choose, one with a rotation head before
and after test-time training, other methods in their own mode. Examples are those of the first seed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fedsuper.core.mode import GLOBAL, SELECT
from fedsuper.core.supermodel import SuperModel
from fedsuper.core.validated.gamma_choice import GRID
from fedsuper.data.layout import find_sites, list_items
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import ALL
from fedsuper.evaluation.evaluate import ScoredImage, evaluate_modes
from fedsuper.evaluation.exhibits.examples import ExampleWriter, Shown
from fedsuper.evaluation.image_tables import Scored
from fedsuper.evaluation.outside import outside_modes, score_outside
from fedsuper.evaluation.results import write_results
from fedsuper.evaluation.run_files.names import EXAMPLES, INSIDE, SUPER_MODEL, UNSEEN
from fedsuper.evaluation.run_files.names import ROUTING as ROUTING_FILE
from fedsuper.evaluation.selection import selection_frequencies
from fedsuper.evaluation.text_tables import results_table
from fedsuper.files import atomic_write_json
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.modes import AVERAGE
from fedsuper.inference.predictor import Predictor
from fedsuper.studies.cells.cell import Cell
from fedsuper.studies.compare import Comparison
from fedsuper.studies.on_demand.exhibit_names import INSIDE_SITES, ROUTING
from fedsuper.studies.on_demand.inside_sites import ByCount, dice_by_count
from fedsuper.studies.on_demand.routing_rows import ROUTE, routing_record, routing_rows
from fedsuper.train.device import Compute

SHOWN_MODES = (GLOBAL, "ttt", SELECT, ROUTE)


def leave_out(what: Comparison, which: str) -> str:
    """Leave one site (or, with `all`, each in turn) out of training and score on all of its images."""
    sites = find_sites(what.data_root)
    if which != "all" and which not in sites:
        raise FedSuperError(
            f"--leave-out {which}: {what.data_root} has no such site; it has {', '.join(sites)}, or say all"
        )
    if len(sites) < 2:
        raise FedSuperError(f"--leave-out: {what.data_root} has one site; at least two are needed")
    unseen = Unseen(what)
    inside = {left: [site for site in sites if site != left] for left in (sites if which == "all" else [which])}
    for _ in what.trained([cell for left, others in inside.items() for cell in unseen.cells(left, others)]):
        continue  # all side by side, before the first is scored
    for left, others in inside.items():
        unseen.add(left, others)
    return unseen.tell()


class Unseen:
    """What is collected while one site after the other is left out."""

    def __init__(self, what: Comparison) -> None:
        self.what = what
        self.compute = Compute.from_config(what.study.compute)
        self.rows: dict[tuple[str, int], list[ScoredImage]] = {}
        self.thresholds: dict[str, dict[str, Any]] = {}
        self.routing: dict[str, dict[str, Any]] = {}
        self.counts: dict[str, ByCount] = {}
        self.examples = ExampleWriter(what.out / EXAMPLES, what.data_root)

    def cells(self, left: str, inside: Sequence[str]) -> list[Cell]:
        """Every row and seed on the sites `inside`."""
        what, folder = self.what, self.what.out / f"without-{left}"
        cells = what.cells(what.methods, _root_of(what.data_root, inside, folder / "data"), folder)
        return [replace(cell, about=f" without {left}") for cell in cells]

    def add(self, left: str, inside: Sequence[str]) -> None:
        """Train on the sites `inside`, score on all images of `left`."""
        what, folder = self.what, self.what.out / f"without-{left}"
        shown: dict[str, Shown] = {}
        for cell in what.trained(self.cells(left, inside)):
            name, seed, super_model = cell.row, cell.seed, load_super_model(cell.folder / SUPER_MODEL)
            scores = self._scores(name, seed, super_model, left)
            for label, images in scores.items():
                self.rows.setdefault((f"{name}{label}", seed), []).extend(images)
            if super_model.mode == SELECT:
                gammas = threshold_table(super_model, what.data_root, left, self.compute)
                self.thresholds.setdefault(left, {})[f"{name}, seed {seed}"] = gammas
            if seed == what.seeds[0]:
                shown |= _shown(name, super_model, scores)
        if shown:
            self._show(left, shown)
        if INSIDE_SITES in what.exhibits:
            only = partial(_root_of, what.data_root)
            self.counts[left] = dice_by_count(what, left, inside, folder, only)

    def _scores(self, name: str, seed: int, super_model: SuperModel, left: str) -> dict[str, list[ScoredImage]]:
        """A row's label to its images: every mode and, where asked for, every variant of the routing."""
        data_root, compute = self.what.data_root, self.compute
        scores = _modes(super_model, data_root, left, compute)
        if ROUTING in self.what.exhibits and f" ({ROUTE})" in scores:
            scores |= routing_rows(super_model, data_root, left, compute)
            if seed == self.what.seeds[0]:
                record = routing_record(super_model, data_root, left, compute)
                self.routing.setdefault(name, {})[left] = record
        return scores

    def _show(self, left: str, shown: Mapping[str, Shown]) -> None:
        """Examples, ranked by the mean over all rows."""
        by_image: dict[str, list[float]] = {}
        for image in (image for images in self.rows.values() for image in images if image.site == left):
            by_image.setdefault(image.image, []).append(image.mean)
        items = list_items(self.what.data_root / left, require_labels=True)
        self.examples.add(left, items, {name: sum(found) / len(found) for name, found in by_image.items()}, shown)

    def tell(self) -> str:
        """Write everything; returns the table."""
        out = self.what.out
        self.examples.close()
        atomic_write_json(out / UNSEEN, self.thresholds)
        for file, found in ((ROUTING_FILE, self.routing), (INSIDE, self.counts)):
            if found:
                atomic_write_json(out / file, found)
        scored = [Scored(method=name, seed=seed, rows=images) for (name, seed), images in self.rows.items()]
        return results_table(write_results(out, self.what.data_root, scored, ALL))


def _shown(name: str, super_model: SuperModel, scores: Mapping[str, object]) -> dict[str, Shown]:
    """Rows whose masks are shown: of many modes those that the papers show; a mean of scores has no mask."""
    predictor = Predictor(super_model)
    modes = {f" ({mode})": mode for mode in SHOWN_MODES}
    if super_model.global_model is None:
        return {}
    return {f"{name}{label}": Shown(predictor, modes.get(label, GLOBAL)) for label in scores if label in ("", *modes)}


def _modes(super_model: SuperModel, data_root: Path, left: str, compute: Compute) -> dict[str, list[ScoredImage]]:
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
    always = evaluate_modes(super_model, data_root, [SELECT], ALL, 0.0, compute, sites=[left])[SELECT]
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


def _root_of(data_root: Path, sites: Sequence[str], folder: Path) -> Path:
    """A data root with links to some sites of another."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(data_root / "dataset.json", folder / "dataset.json")
    for site in sites:
        link = folder / site
        if not link.is_symlink():
            os.symlink((data_root / site).resolve(), link, target_is_directory=True)
    return folder
