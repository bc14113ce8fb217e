"""The predictor: what it refuses, and the way back to the image's own grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from prediction import CPU, images, run
from super_models import PROSTATE, constant_super_model, random_super_model

from fedsuper.core.supermodel import SuperModel
from fedsuper.data.images.geometry import SliceFrame
from fedsuper.data.images.io import Image
from fedsuper.errors import FedSuperError
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.segment import segment


def photo(height: int, width: int, channels: int = 3, slices: int = 1, seed: int = 0) -> Image:
    array = np.random.default_rng(seed).uniform(0, 255, (slices, channels, height, width)).astype(np.float32)
    return Image(array, Path("photo.png"), "raster", (height, width), SliceFrame())


@pytest.fixture(scope="module")
def model() -> SuperModel:
    return random_super_model()


@pytest.mark.parametrize(("mode", "options", "expected"), [
    ("nonsense", {}, "mode 'nonsense' is not known; use one of select"),
    ("site:X", {}, "no personalized model of 'X'; there are: A, B, C"),
    ("own", {}, "needs the site the images come from"),
    ("average", {}, "a number and not a mask"),
    ("select-all", {}, "needs a selector that knows the global model"),
    ("select", {"gamma": 1.2}, r"gamma must lie in \[0, 1\], got 1.2"),
    ("select", {"vote": "majority"}, "vote must be case or slice"),
])
def test_wrong_modes_are_told(model: SuperModel, mode: str, options: dict, expected: str) -> None:
    with pytest.raises(FedSuperError, match=expected):
        run(model, mode, [images(1)], **options)


def test_selecting_without_a_selector_or_a_global_model() -> None:
    model = random_super_model()
    model.selector = None
    with pytest.raises(FedSuperError, match="has no selector; use --mode global"):
        run(model, "select", [images(1)])
    model.global_model = None
    with pytest.raises(FedSuperError, match="no model 'global'; it has A, B, C"):
        run(model, "global", [images(1)])


def test_a_super_model_that_does_not_fit_its_study() -> None:
    model = random_super_model()
    assert model.global_model is not None
    model.global_model.pop(next(iter(model.global_model)))
    with pytest.raises(FedSuperError, match="weights of 'global' do not fit") as caught:
        run(model, "global", [images(1)])
    assert "\n" not in str(caught.value)
    del model.manifest["study"]
    with pytest.raises(FedSuperError, match="no 'study'"):
        Predictor(model, CPU)


# --- back to the image's grid -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width"), [(32, 32), (41, 57), (200, 90)])
def test_masks_have_the_images_own_size(model: SuperModel, height: int, width: int) -> None:
    prediction = segment(Predictor(model, CPU), photo(height, width))
    assert prediction.labels.shape == (1, height, width) and prediction.labels.dtype == np.uint8
    assert prediction.probabilities.shape == (1, 2, height, width)
    assert set(np.unique(prediction.labels)) <= {0, 1, 2}
    assert prediction.classes == ["A", "B", "C"] and prediction.gamma == 0.6


def test_regions_become_label_values() -> None:
    model = constant_super_model({"global": [True, False]}, mode="global")
    assert set(np.unique(segment(Predictor(model, CPU), photo(20, 30)).labels)) == {1}
    model = constant_super_model({"global": [True, True]}, mode="global")
    assert set(np.unique(segment(Predictor(model, CPU), photo(20, 30)).labels)) == {2}


def test_neighboring_slices_as_channels() -> None:
    model = random_super_model(task=PROSTATE, preprocess={"slices": 3})
    prediction = segment(Predictor(model, CPU), photo(40, 40, channels=1, slices=5))
    assert prediction.labels.shape == (5, 40, 40) and len(prediction.chosen) == 5


def test_the_training_sites_device_is_not_asked_for() -> None:
    """A super model trained on a hospital's third GPU opens on a machine without one."""
    model = random_super_model(compute={"device": "cuda:2"})
    assert Predictor(model).compute.device.type in ("cpu", "cuda")
