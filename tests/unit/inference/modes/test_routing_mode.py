"""`--mode route`: without labels, in any order, and again from a hospital's file without tuning."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from routed_nets import images
from super_models import RETINA, random_super_model

from fedsuper.core.state import clone
from fedsuper.core.supermodel import SuperModel
from fedsuper.errors import FedSuperError
from fedsuper.inference.artifact import save_super_model
from fedsuper.inference.modes.base import ModeOptions, create_mode
from fedsuper.inference.predict.predict_paths import predict_paths
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.train.checkpoint import load_models, save_models


def super_model(**routing: object) -> SuperModel:
    return random_super_model(routing={"epochs": 2, "radius": 2, "lr": 0.05} | routing)


def run(model: SuperModel, cases: list[torch.Tensor], file=None) -> torch.Tensor:
    predictor = Predictor(model)
    mode = create_mode(predictor, "route", ModeOptions(routing_file=file))
    mode.prepare(cases)
    return torch.cat([mode.predict(SliceBatch(predictor, [case])).probabilities for case in cases])


CASES = list(images(3, size=32).split(1))


def test_every_image_is_explained():
    predictor = Predictor(super_model())
    outcome = create_mode(predictor, "route").predict(SliceBatch(predictor, [images(2, size=32), images(1, size=32)]))
    assert outcome.chosen == ["route"] * 3 and len(outcome.details) == 3
    json.dumps(outcome.details, allow_nan=False)
    matrix = outcome.details[0]["coefficients"]
    assert all(sum(row) == pytest.approx(1, abs=1e-3) and len(row) == 4 for row in matrix.values())
    assert len(outcome.details[0]["losses"]) == 3


def test_order_does_not_matter_with_reset_and_may_without():
    forward, backward = run(super_model(), CASES), run(super_model(), CASES[::-1])
    assert torch.equal(forward, backward.flip(0))
    whole = run(super_model(reset=False), CASES)
    assert not torch.allclose(whole, forward, atol=1e-6)


def test_experts_are_left_as_they_were():
    model = super_model()
    before = {name: clone(state) for name, state in model.experts().items()}
    run(model, CASES)
    for name, state in model.experts().items():
        assert all(torch.equal(state[entry], before[name][entry]) for entry in state)


def test_a_tuned_routing_is_kept_in_a_small_file_and_reused_without_tuning(tmp_path):
    file = tmp_path / "hospital.safetensors"
    model = super_model()
    first = run(model, CASES, file)
    assert file.stat().st_size < 200_000
    stamp = file.read_bytes()
    again = run(model, CASES[::-1], file).flip(0)
    assert torch.allclose(first, again, atol=1e-6) and file.read_bytes() == stamp
    # the file's own settings count, not the study's
    assert torch.allclose(run(super_model(gate="static", level="global", epochs=0), CASES, file), first, atol=1e-6)
    assert not torch.allclose(run(super_model(epochs=0), CASES), first, atol=1e-6)


def test_a_file_of_another_super_model_is_refused(tmp_path):
    file = tmp_path / "hospital.safetensors"
    run(super_model(), CASES, file)
    other = super_model()
    assert other.global_model is not None
    next(iter(other.global_model.values())).add_(1)
    with pytest.raises(FedSuperError, match="another super model"):
        run(other, CASES, file)
    save_models(tmp_path / "not-routing.safetensors", {"gates": {}})
    with pytest.raises(FedSuperError, match="not a routing file"):
        run(super_model(), CASES, tmp_path / "not-routing.safetensors")
    (tmp_path / "torn.safetensors").write_bytes(file.read_bytes()[:100])
    with pytest.raises(FedSuperError, match="torn"):
        run(super_model(), CASES, tmp_path / "torn.safetensors")
    models, values = load_models(file)
    models["gates"].popitem()
    save_models(tmp_path / "short.safetensors", models, values)
    with pytest.raises(FedSuperError, match="do not fit"):
        run(super_model(), CASES, tmp_path / "short.safetensors")


def test_no_readable_image_is_nothing_to_tune_on(tmp_path):
    file = tmp_path / "hospital.safetensors"
    create_mode(Predictor(super_model()), "route", ModeOptions(routing_file=file)).prepare([])
    assert not file.exists()


def test_a_super_model_with_one_model_has_nothing_to_mix():
    model = super_model()
    model.personal = {}
    with pytest.raises(FedSuperError, match="holds 1 segmentation model"):
        create_mode(Predictor(model), "route")


@pytest.mark.parametrize("mode", ["route", "global-stats", "tent"])
def test_labels_are_never_needed_nor_read(tmp_path, mode):
    """A data root without labels: the images alone, in a hospital's folder."""
    folder = tmp_path / "root" / "hospital" / "images"
    folder.mkdir(parents=True)
    (tmp_path / "root" / "dataset.json").write_text(json.dumps(RETINA))
    rng = np.random.default_rng(0)
    for index in range(2):
        Image.fromarray(rng.integers(0, 255, (40, 36, 3), dtype=np.uint8)).save(folder / f"{index}.png")
    norm = {"channels": [4, 8], "residual_units": 0, "norm": "batch"}
    model = random_super_model(routing={"epochs": 1, "radius": 2}, model=norm)
    save_super_model(model, tmp_path / "sm")
    assert predict_paths(tmp_path / "sm", [folder.parent], tmp_path / "out", mode) == 0
    for index in range(2):
        assert Image.open(tmp_path / "out" / f"{index}.png").size == (36, 40)
    record = json.loads((tmp_path / "out" / "predict.json").read_text())
    assert all(("coefficients" in entry.get("details", {})) == (mode == "route") for entry in record["images"])
