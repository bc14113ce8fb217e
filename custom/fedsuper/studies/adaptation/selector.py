"""`fedsuper selector add|remove`: sites that join or leave a super model without training."""

from __future__ import annotations

from pathlib import Path

from fedsuper.core.feature_sums import MINIMUM_IMAGES, MINIMUM_PATIENTS
from fedsuper.errors import FedSuperError
from fedsuper.inference.artifact import load_super_model, save_super_model
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.membership import join, leave
from fedsuper.studies.adaptation.images import read_site, sums_of_site


def add_site(super_model_folder: Path, site_folder: Path, out: Path, part: str = "all") -> str:
    """Write the super model with one more site, served by the global model; returns what to tell the user."""
    super_model = load_super_model(super_model_folder)
    predictor = Predictor(super_model)
    site = read_site(predictor, site_folder, part)
    sums = sums_of_site(predictor, site)
    if sums is None:
        raise FedSuperError(f"{site.folder}: {len(site.items)} images are too few to join; {MINIMUM_IMAGES} images of "
                            f"{MINIMUM_PATIENTS} patients are needed, so that their sums say nothing of a single one")
    grown = join(super_model, site.name, sums)
    save_super_model(grown, out)
    return f"{site.name} joined with {len(site.items)} images: {len(grown.sites)} sites in {out}"


def remove_site(super_model_folder: Path, site: str, out: Path) -> str:
    """Write the super model without a site; returns what to tell the user."""
    shrunk = leave(load_super_model(super_model_folder), site)
    save_super_model(shrunk, out)
    return (f"{site} left: {len(shrunk.personal)} sites with models in {out}; what its images taught the other models "
            "is not undone")
