"""Images unlike every site are told, images of the sites rarely: what the columns familiarity and review promise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fedsuper.config.reading import parse_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.images.io import read_image
from fedsuper.data.preprocess import prepare_image
from fedsuper.data.synthetic.prostate import write_prostate
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.engines.in_process import run_local
from fedsuper.federation.progress import Silent
from fedsuper.federation.site_data import SiteData
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.familiarity import REVIEW_BELOW, Familiarity

STUDY = {
    "method": "fedavg", "rounds": 1, "image_size": 48, "optimizer": {"lr": 0.01},
    "model": {"name": "plain-unet", "channels": [8, 16], "norm": "instance"},
}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("familiarity")
    write_retina(folder / "root", sites=4, images=240, size=64, outside=True, difficulty="easy")
    write_prostate(folder / "prostate", sites=1, images=4, size=64, difficulty="easy")
    return folder


@pytest.fixture(scope="module")
def super_model(place: Path) -> SuperModel:
    return run_local(parse_study(STUDY), place / "root", place / "run", Silent())


@pytest.fixture(scope="module")
def flagged(super_model: SuperModel) -> Callable[[torch.Tensor], float]:
    """The share of prepared images that a person is to look at."""
    judge = Familiarity.of(Predictor(super_model))
    assert judge is not None
    return lambda images: float((judge.values(images) < REVIEW_BELOW).double().mean())


@pytest.fixture(scope="module")
def known(super_model: SuperModel, place: Path) -> torch.Tensor:
    """The sites' test images."""
    study = Predictor(super_model).study
    folders = {site: place / "run" / "sites" / site for site in super_model.sites}
    data = [SiteData(site, place / "root", folder) for site, folder in folders.items()]
    return torch.cat([each.samples(study, "test").images for each in data])


def prepared(super_model: SuperModel, folder: Path) -> torch.Tensor:
    predictor = Predictor(super_model)
    return torch.cat([predictor.prepare(read_image(path)) for path in sorted(folder.glob("*/images/*"))])


def test_about_one_in_twenty_images_of_the_sites_is_flagged(flagged, known: torch.Tensor) -> None:
    assert flagged(known) <= 0.15  # 5% of sixty images, give or take what chance does to so few


@pytest.mark.parametrize("kind", ["inverted", "noise", "smooth noise", "blank", "one color", "coarse"])
def test_what_no_site_has_is_flagged(flagged, known: torch.Tensor, kind: str) -> None:
    noise = torch.randn(known.shape, generator=torch.Generator().manual_seed(0))
    smooth = torch.nn.functional.avg_pool2d(noise, 7, 1, 3)
    strangers = {
        "inverted": -known,
        "noise": noise,
        "smooth noise": smooth / smooth.std(),
        "blank": torch.zeros_like(known),
        "one color": known.mean(dim=1, keepdim=True).expand_as(known),
        "coarse": known[:, :, ::8, ::8].repeat_interleave(8, dim=2).repeat_interleave(8, dim=3),
    }
    assert flagged(strangers[kind]) >= 0.9


def test_another_modality_and_an_outside_hospital_are_flagged(
    flagged, super_model: SuperModel, place: Path
) -> None:
    assert flagged(prepared(super_model, place / "root-outside")) >= 0.9
    predictor = Predictor(super_model)
    scans = [read_image(path) for path in sorted((place / "prostate").glob("*/images/*"))]
    slices = [prepare_image(scan, predictor.preprocess, 1).expand(-1, 3, -1, -1) for scan in scans]
    assert flagged(torch.cat(slices)) >= 0.9
