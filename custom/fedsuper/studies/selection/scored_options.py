"""A finished super model on its sites' test images under every selector and gate, and what else could be chosen."""

from __future__ import annotations

from pathlib import Path

import torch

from fedsuper.core.expected_dice import HALF_TRUST
from fedsuper.core.mode import GLOBAL
from fedsuper.core.supermodel import SuperModel
from fedsuper.core.validated.selection_choice import AUTO, EXPECTED_DICE, STATISTICS, TRAINED, Selection, options_of
from fedsuper.data.dataset import load_samples
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.splits import RATIOS, split_folder
from fedsuper.evaluation.run_files.names import SUPER_MODEL
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.gamma import batch_of, first_slices, image_dice
from fedsuper.inference.modes.base import ModeOptions
from fedsuper.inference.modes.select import Select
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.cost_gate import ExpectedDiceGate
from fedsuper.inference.selection.familiarity import REVIEW_BELOW, Familiarity
from fedsuper.inference.selection.gate_statistics import expert_dice
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.studies.adaptation.images import labeled_samples, read_site
from fedsuper.studies.selection.federations import Federation

TAKEN, FOLLOWED, KNOWN, ORACLE = "auto", "the best validation Dice", "site known", "best by label"
ONE_ROW = f"{STATISTICS}/{EXPECTED_DICE}, one mean row"
FLAGGED = "flagged as unlike every site"
NAMED = {kind: f"named right, {kind}" for kind in (TRAINED, STATISTICS)}


def option_scores(federation: Federation) -> dict[str, float]:
    """By row the mean over sites of the sites' mean test Dice (or of images named right), at the nets' resolution.

    And the share of all those images that are flagged as unlike every site, where the super model can tell.
    """
    predictor = Predictor(load_super_model(federation.run / SUPER_MODEL))
    batches = [_test_images(predictor, federation, site) for site in predictor.super_model.sites]
    by_site = [_at_site(batch, samples, label) for label, (batch, samples) in enumerate(batches)]
    found = {row: sum(each[row] for each in by_site) / len(by_site) for row in by_site[0]}
    judge = Familiarity.of(predictor)
    if judge is not None:
        told = torch.cat([judge.familiarity_at(batch.distances(judge)) for batch, _ in batches])
        found[FLAGGED] = float((told < REVIEW_BELOW).double().mean())
    return found


def _at_site(batch: SliceBatch, samples: Samples, label: int) -> dict[str, float]:
    predictor, experts = batch.predictor, expert_dice(batch, samples)
    site = predictor.super_model.sites[label]
    chosen = predictor.super_model.manifest["selection"]
    found = {option.name: _selected(batch, samples, option) for option in options_of(AUTO, AUTO)}
    found |= {
        TAKEN: found[Selection(chosen["kind"], chosen["gate"]).name],
        FOLLOWED: found[max(chosen["dice"], key=lambda name: chosen["dice"][name])],
        ONE_ROW: _selected(batch, samples, Selection(STATISTICS, EXPECTED_DICE), one_row=True),
        GLOBAL: float(experts[GLOBAL].mean()),
        KNOWN: float(experts[site].mean()),
        ORACLE: float(torch.stack(list(experts.values())).amax(dim=0).mean()),
    }
    starts = first_slices(batch.sizes)
    for kind, row in NAMED.items():
        q = batch.case_means(batch.selector(kind))[starts][:, -len(predictor.super_model.sites):]
        found[row] = float((q.argmax(dim=1) == label).double().mean())
    return found


def _selected(batch: SliceBatch, samples: Samples, option: Selection, one_row: bool = False) -> float:
    mode = Select(batch.predictor, ModeOptions(selection=option))
    if one_row and mode.weighed is not None:
        mode.weighed.table = towards_one_row(mode.weighed, batch.predictor.super_model)
    return float(image_dice(mode.predict(batch).probabilities > 0.5, samples, batch.sizes).mean())


def towards_one_row(gate: ExpectedDiceGate, super_model: SuperModel) -> torch.Tensor:
    """U as it would be without a thought for own experts: U_j <- (n_j U_j + n_0 mean) / (n_j + n_0)."""
    utility = super_model.manifest["utility"]
    columns = [utility["experts"].index(name) for name in gate.experts]
    rows = torch.tensor([[utility["dice"][site][at] for at in columns] for site in super_model.sites]).double()
    count = torch.tensor([utility["images"][site] for site in super_model.sites]).double()[:, None]
    return (count * rows + HALF_TRUST * rows.mean(dim=0)) / (count + HALF_TRUST)


def _test_images(predictor: Predictor, federation: Federation, site: str) -> tuple[SliceBatch, Samples]:
    if federation.further is not None:
        return hospital_images(predictor, federation.further / site)
    split, folder = predictor.study.split, federation.root / site
    parts = split_folder(folder, predictor.task, RATIOS[split.ratios], split.seed)
    samples = load_samples(folder, parts["test"], predictor.task, predictor.preprocess)
    return batch_of(predictor, samples), samples


def hospital_images(predictor: Predictor, folder: Path) -> tuple[SliceBatch, Samples]:
    """Every labeled image of a folder."""
    samples = labeled_samples(predictor, read_site(predictor, folder))
    return batch_of(predictor, samples), samples
