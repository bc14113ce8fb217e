"""`fedsuper adapt`: a hospital that never took part labels a few images and gets a model of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from fedsuper.core.mode import GLOBAL
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.layout import Item
from fedsuper.errors import FedSuperError
from fedsuper.inference.artifact import load_super_model, save_super_model
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.membership import check_can_join, join
from fedsuper.studies.adaptation.fine_tune import CHECK_STEPS, USUAL_STEPS, FineTuning, Fitted
from fedsuper.studies.adaptation.images import SiteImages, labeled_samples, read_site, sums_of_site
from fedsuper.studies.adaptation.starts import EVEN, SELECTOR, starting_points
from fedsuper.studies.adaptation.suggest import suggest

LEAST_PATIENTS = 2  # one to train on, one to be left out


def suggest_images(super_model_folder: Path, site_folder: Path, count: int) -> str:
    """The images most worth labeling, a line each."""
    predictor = Predictor(load_super_model(super_model_folder))
    site = read_site(predictor, site_folder)
    found = suggest(predictor, site, count)
    if not found:
        raise FedSuperError(f"{site.folder}: every image has a label; nothing is left to suggest")
    lines = [
        f"{each.name}  models disagree by {each.disagreement:.3f}"
        + ("" if each.familiarity is None else f", familiarity {each.familiarity:.3f}")
        for each in found
    ]
    return "\n".join([f"label these first (of {len(site.items) - len(site.labeled())} without a label):", *lines])


def adapt_site(super_model_folder: Path, site_folder: Path, out: Path, steps: int = USUAL_STEPS, seed: int = 0) -> str:
    """Fine-tune, register, write; returns what to tell the user."""
    super_model = load_super_model(super_model_folder)
    adapted, fitted, site = adapt(super_model, Path(site_folder), steps, seed)
    save_super_model(adapted, out)
    return "\n".join([
        f"{site.name}: {len(site.labeled())} labeled images, start '{fitted.start}', {fitted.steps} steps",
        f"Dice on patients left out: {fitted.before:.3f} before, {fitted.after:.3f} after",
        f"super model: {out}",
        f"predict: fedsuper predict {out} IMAGES --out masks --mode site:{site.name}",
    ])


def adapt(
    super_model: SuperModel, site_folder: Path, steps: int = USUAL_STEPS, seed: int = 0
) -> tuple[SuperModel, Fitted, SiteImages]:
    """The super model with the hospital's own expert and class, how it was found, and the images it came from."""
    check_can_join(super_model, Path(site_folder).resolve().name)
    predictor = Predictor(super_model)
    site = read_site(predictor, site_folder)
    _check_labels(site, site.labeled())
    starts = starting_points(predictor, site.all())
    tuning = FineTuning(predictor, labeled_samples(predictor, site), max(1, round(steps / CHECK_STEPS)), seed)
    tried = [name for name in (EVEN, SELECTOR, GLOBAL) if name in starts] or list(starts)
    fitted = tuning.fit(starts, tried, lambda line: print(line, file=sys.stderr))
    worth = fitted.starts | {site.name: fitted.after}
    grown = join(super_model, site.name, sums_of_site(predictor, site), fitted.state, worth, len(site.labeled()))
    grown.manifest["adapted"] = {
        **grown.manifest.get("adapted", {}),
        site.name: {
            "labels": len(site.labeled()), "images": len(site.items), "start": fitted.start, "steps": fitted.steps,
            "dice_before": fitted.before, "dice_after": fitted.after, "starts": fitted.starts, "seed": seed,
        },
    }
    return grown, fitted, site


def _check_labels(site: SiteImages, labeled: list[Item]) -> None:
    patients = len({item.case for item in labeled})
    if patients < LEAST_PATIENTS:
        raise FedSuperError(f"{site.folder}: labels of {patients} patient(s), at least {LEAST_PATIENTS} are needed and "
                            "three to ten are worth the work; --suggest N names the images to begin with")
