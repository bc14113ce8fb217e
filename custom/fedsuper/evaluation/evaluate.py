"""Scoring a super model: Dice per image in the image's own grid, against what a user would get as a mask.

A volume is one image (case level): its slices are scored together. Means go over images first, then over regions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedsuper.core.mode import GLOBAL, OWN
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.layout import Item, find_sites, resolve_site
from fedsuper.data.task import read_task
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import CaseStore, LabeledCase, chunks, load_case
from fedsuper.evaluation.metrics.case_scores import Detail, case_detail, case_dice
from fedsuper.evaluation.statistics import bootstrap
from fedsuper.inference.modes import AVERAGE, ORACLE, SITE_PREFIX
from fedsuper.inference.modes.base import Mode, ModeOptions, Outcome, create_mode, score_models
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.train.device import Compute


@dataclass(frozen=True)
class ScoredImage:
    """The scores of one image and how it was segmented.

    `chosen` is the model used, `own` the site's name in the super model (None: it took no part in training),
    `probabilities` the selector's, by class (empty without a selector), `mode` the way a model was chosen, `detail` the
    boundary distances and measurements where they were asked for.
    """

    site: str
    image: str
    case: str
    dice: dict[str, float]
    chosen: str
    own: str | None = None
    gamma: float | None = None
    probabilities: dict[str, float] = field(default_factory=dict)
    mode: str | None = None
    detail: Detail | None = None

    @property
    def mean(self) -> float:
        """Mean Dice over regions."""
        return sum(self.dice.values()) / len(self.dice)

    @property
    def predicted(self) -> str | None:
        """The site (or `global`) the selector holds the image for."""
        return max(self.probabilities, key=lambda name: self.probabilities[name]) if self.probabilities else None


def evaluate(
    super_model: SuperModel,
    root: Path,
    split: str = "test",
    mode: str | None = None,
    gamma: float | None = None,
    compute: Compute | None = None,
    **options: Any,
) -> list[ScoredImage]:
    """Every image of one part of every site's split under `root`, scored in one mode; see `evaluate_modes`."""
    name = mode or super_model.mode
    return evaluate_modes(super_model, root, [name], split, gamma, compute, **options)[name]


def evaluate_modes(
    super_model: SuperModel,
    root: Path,
    modes: Sequence[str],
    split: str = "test",
    gamma: float | None = None,
    compute: Compute | None = None,
    sites: Sequence[str] | None = None,
    store: CaseStore | None = None,
    vote: str = "case",
    detailed: bool = False,
) -> dict[str, list[ScoredImage]]:
    """Several modes at once: images are read and prepared once and each model runs at most once on each of them.

    The split is the one training froze: its digest is in the manifest, its file may be in `store`, which also keeps
    prepared images for further calls. `sites` limits the folders. `average` is the mean of the personalized models'
    scores, `oracle` the score of the model that the label shows to be best on the image.
    """
    predictor = Predictor(super_model, compute)
    found = read_task(root)
    if found != predictor.task:
        raise FedSuperError(f"{root}: its dataset.json describes {found.to_json()}, the super model segments "
                            f"{predictor.task.to_json()}; use data of the same task")
    store = store or CaseStore(root)
    known = federation_names(super_model, root)
    digests = training_splits(super_model, root)
    rows: dict[str, list[ScoredImage]] = {mode: [] for mode in modes}
    for site in sites or find_sites(root):
        cases = store.cases(
            site, split, predictor.study, predictor.task, predictor.preprocess, digests.get(site)
        )
        for mode, scored in score_cases(
            predictor, site, known.get(site), cases, modes, gamma, vote, detailed
        ).items():
            rows[mode] += scored
    return rows


def site_scores(
    super_model: SuperModel, folder: Path, items: list[Item], compute: Compute, own: str
) -> dict[str, float]:
    """A site's mean scores of its own images in the super model's mode: what it may tell the server of them.

    `mean_low` and `mean_high` are the ends of the mean's 95% bootstrap interval over the site's patients.
    """
    predictor = Predictor(super_model, compute)
    cases = [load_case(item, predictor.task, predictor.preprocess) for item in items]
    label = own if own in super_model.sites else None
    rows = score_cases(predictor, folder.name, label, cases, [super_model.mode])[super_model.mode]
    means = site_means(rows)
    single = {(row.site, row.case, row.image): float(np.mean(list(row.dice.values()))) for row in rows}
    interval = bootstrap(single, by_site=False)
    return means | {"mean_low": interval.low, "mean_high": interval.high}


def site_by_model(
    super_model: SuperModel, store: CaseStore, split: str = "test", compute: Compute | None = None
) -> dict[str, dict[str, float]]:
    """Mean Dice of every model on every site's images: `matrix[model][site]`, models in fixed order, global first."""
    modes = {name: GLOBAL if name == GLOBAL else f"{SITE_PREFIX}{name}" for name in super_model.experts()}
    rows = evaluate_modes(super_model, store.root, list(modes.values()), split, compute=compute, store=store)
    return {
        model: {site: site_means([row for row in rows[mode] if row.site == site])["mean"]
                for site in dict.fromkeys(row.site for row in rows[mode])}
        for model, mode in modes.items()
    }


def site_means(rows: Sequence[ScoredImage]) -> dict[str, float]:
    """Mean Dice of each region over images, their mean over regions, and the number of images."""
    if not rows:
        raise FedSuperError("no image to average over; the site's part of the split is empty")
    means = {region: float(np.mean([row.dice[region] for row in rows])) for region in rows[0].dice}
    return means | {"mean": float(np.mean(list(means.values()))), "n": len(rows)}


def score_cases(
    predictor: Predictor,
    site: str,
    own: str | None,
    cases: list[LabeledCase],
    modes: Sequence[str],
    gamma: float | None = None,
    vote: str = "case",
    detailed: bool = False,
) -> dict[str, list[ScoredImage]]:
    """One site's cases in several modes; `own` is the site's name in the super model, None for an outside site.

    `detailed` adds boundary distances and measurements, which take longer than all else, where one model answers.
    """
    options = ModeOptions(gamma, own, vote)
    ready = {name: _members(predictor, name, own, options) for name in modes}
    for members in ready.values():
        for mode in members:
            if mode.adapts:
                mode.prepare(case.images for case in cases)
    rows: dict[str, list[ScoredImage]] = {name: [] for name in modes}
    for portion in chunks(cases):
        batch = SliceBatch(predictor, [case.images for case in portion], patients=[case.case for case in portion])
        for name, members in ready.items():
            outcomes = [(mode.gamma, mode.predict(batch)) for mode in members]
            rows[name] += _score_portion(predictor, site, own, name, portion, outcomes, detailed)
    return rows


def federation_names(super_model: SuperModel, root: Path) -> dict[str, str]:
    """Folder -> name in the super model, for the folders whose site took part in training.

    `site-N` stands for the N-th folder only where the root has exactly the federation's number of folders and none of
    its names: elsewhere it would claim an outside hospital's folder.
    """
    folders = find_sites(root)
    named = {site: site for site in super_model.sites if site in folders}
    if named or len(folders) != len(super_model.sites):
        return named
    try:
        return {resolve_site(root, site).name: site for site in super_model.sites}
    except FedSuperError:
        return {}


def training_splits(super_model: SuperModel, root: Path) -> dict[str, str]:
    """Folder -> digest of the split that training froze there, for the folders whose site took part."""
    digests = super_model.manifest.get("provenance", {}).get("splits", {})
    names = federation_names(super_model, root)
    return {site: digests[key] for site in find_sites(root) if (key := names.get(site, site)) in digests}


def _members(predictor: Predictor, name: str, own: str | None, options: ModeOptions) -> list[Mode]:
    """The modes whose scores make up a row: one, except for `average` (their mean) and `oracle` (the best by label).

    An outside site has no model of its own: `own` there is the global model, and without one the average.
    """
    if name == OWN and (own is None or own not in predictor.super_model.personal):
        name = GLOBAL if GLOBAL in predictor.experts else AVERAGE
    if name not in (AVERAGE, ORACLE):
        return [create_mode(predictor, name, options)]
    experts = list(predictor.experts) if name == ORACLE else score_models(predictor)
    models = [GLOBAL if model == GLOBAL else f"{SITE_PREFIX}{model}" for model in experts]
    return [create_mode(predictor, model, options) for model in models]


def _score_portion(
    predictor: Predictor,
    site: str,
    own: str | None,
    mode: str,
    portion: list[LabeledCase],
    outcomes: list[tuple[float | None, Outcome]],
    detailed: bool,
) -> list[ScoredImage]:
    rows, start = [], 0
    for case in portion:
        here = slice(start, start + len(case.images))
        start = here.stop
        scores = [case_dice(predictor, case, outcome.probabilities[here]) for _, outcome in outcomes]
        best = max(range(len(scores)), key=lambda index: float(scores[index].mean())) if mode == ORACLE else 0
        scores = [scores[best]] if mode == ORACLE else scores
        gamma, outcome = outcomes[best]
        chosen = AVERAGE if len(scores) > 1 else "+".join(dict.fromkeys(outcome.chosen[here]))
        q = outcome.selector[here].mean(dim=0).tolist() if outcome.selector is not None else []
        probabilities = dict(zip(predictor.classes, q, strict=True)) if q else {}
        by_region = dict(zip(predictor.task.regions, torch.stack(scores).mean(dim=0).tolist(), strict=True))
        single = detailed and len(scores) == 1
        detail = case_detail(predictor, case, outcome.probabilities[here]) if single else None
        rows.append(ScoredImage(site, case.name, case.case, by_region, chosen, own, gamma, probabilities, mode, detail))
    return rows
