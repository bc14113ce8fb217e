"""The masks of an export are those of `fedsuper predict`: every format, every selector, 20 pictures."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from export_cases import description, mask_by_hand, predictor_of, saved, super_model_with, write_pictures
from exported import load_onnx, load_program
from PIL import Image
from super_models import random_super_model

from fedsuper.data.images.io import read_image
from fedsuper.errors import FedSuperError
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.export.bundle_run import segment_folder
from fedsuper.inference.export.chooser import Chooser
from fedsuper.inference.export.models import export
from fedsuper.inference.export.programs import as_predicted, trace
from fedsuper.inference.modes.base import create_mode
from fedsuper.inference.predict.predict_paths import predict_paths
from fedsuper.inference.slice_batch import SliceBatch


class Predicted:
    """A super model, 20 pictures and what `fedsuper predict` made of them."""

    def __init__(self, selector: str, folder: Path) -> None:
        self.model = saved(super_model_with(selector, folder / "sites"), folder / "model")
        self.pictures = write_pictures(folder / "images")
        self.masks = folder / "masks"
        assert predict_paths(self.model, self.pictures, self.masks) == 0
        with (self.masks / "routing.csv").open(encoding="utf-8") as table:
            self.chosen = [row["model"] for row in csv.DictReader(table)]

    def mask(self, picture: Path) -> np.ndarray:
        return np.array(Image.open(self.masks / picture.name))


@pytest.fixture(scope="module", params=["trained", "expected-dice"])
def predicted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Predicted:
    return Predicted(request.param, tmp_path_factory.mktemp("predicted"))


def test_the_pictures_need_more_than_one_model(predicted: Predicted) -> None:
    assert len(predicted.chosen) == 20 and len(set(predicted.chosen)) > 1
    assert len({predicted.mask(picture).tobytes() for picture in predicted.pictures}) > 10


@pytest.mark.slow
@pytest.mark.parametrize("to", ["pt2", "onnx"])
def test_programs_choose_and_segment_as_predict_does(to: str, predicted: Predicted, tmp_path: Path) -> None:
    load = load_program if to == "pt2" else load_onnx
    if to == "onnx":
        pytest.importorskip("onnxscript")
    export(predicted.model, to, tmp_path / "out", name_sites=True)
    told = description(tmp_path / "out")
    experts = {name: load(tmp_path / "out" / file) for name, file in told["models"].items()}
    selector = load(tmp_path / "out" / told["selector"])
    with torch.inference_mode():
        found = [mask_by_hand(told, experts, selector, picture) for picture in predicted.pictures]
    assert [name for name, _ in found] == predicted.chosen
    for (_, mask), picture in zip(found, predicted.pictures, strict=True):
        np.testing.assert_array_equal(mask, predicted.mask(picture))


@pytest.mark.slow
def test_monai_bundle_run_writes_the_same_files(predicted: Predicted, tmp_path: Path) -> None:
    from monai.bundle import run

    export(predicted.model, "monai-bundle", tmp_path / "out")
    run(
        config_file=str(tmp_path / "out/configs/inference.json"), bundle_root=str(tmp_path / "out"), device="cpu",
        dataset_dir=str(predicted.pictures[0].parent), output_dir=str(tmp_path / "masks"),
    )
    assert {path.name for path in (tmp_path / "masks").iterdir()} == {path.name for path in predicted.pictures}
    for picture in predicted.pictures:
        assert (tmp_path / "masks" / picture.name).read_bytes() == (predicted.masks / picture.name).read_bytes()


@pytest.mark.parametrize("mode", ["select", "select-all"])
@pytest.mark.parametrize("without", [None, "global", "B"])
def test_the_chooser_is_the_mode(mode: str, without: str | None) -> None:
    """Also where a model is missing: its class cannot be chosen; a missing global model is position -1."""
    model = random_super_model(["A", "B", "C"], mode)
    if without == "global" and mode == "select":
        model.manifest["gamma"] = 0.0
    model.global_model = None if without == "global" else model.global_model
    model.personal = {site: state for site, state in model.personal.items() if site != without}
    random = torch.Generator().manual_seed(0)
    x = torch.randn(24, 3, 32, 32, generator=random) + 3 * torch.randn(24, 3, 1, 1, generator=random)
    assert model.selector is not None
    with torch.no_grad():  # no class ahead of the others, so that the answers differ
        model.selector["head.bias"] -= predictor_of(model).selector()(x).mean(dim=0)
    predictor = predictor_of(model)
    chooser = Chooser(predictor)
    volumes = x.split(3)
    expected = create_mode(predictor).predict(SliceBatch(predictor, volumes)).chosen[::3]
    with torch.no_grad():
        places = [int(chooser(volume)[1]) for volume in volumes]
    assert [list(predictor.experts)[place] for place in places] == expected and len(set(expected)) > 1


def test_the_chooser_of_a_closed_form_selector_is_the_mode(tmp_path: Path) -> None:
    predictor = predictor_of(super_model_with("threshold", tmp_path))
    x = torch.cat([predictor.prepare(read_image(path)) for path in write_pictures(tmp_path, 9)])
    expected = create_mode(predictor).predict(SliceBatch(predictor, x.split(1))).chosen
    chooser = Chooser(predictor)
    with torch.no_grad():
        assert [list(predictor.experts)[int(chooser(one[None])[1])] for one in x] == expected
    assert {"A", "B"} <= set(expected)


def test_a_rule_that_wants_the_missing_global_model_says_so() -> None:
    model = random_super_model()
    model.global_model, model.manifest["gamma"] = None, 1.0
    with torch.no_grad():
        assert int(Chooser(predictor_of(model))(torch.zeros(1, 3, 32, 32))[1]) == -1


def test_the_closed_form_program_holds_no_more_of_a_net_than_it_reads(tmp_path: Path) -> None:
    predictor = predictor_of(super_model_with("expected-dice", tmp_path))
    program = trace(predictor, Chooser(predictor))
    whole = sum(tensor.numel() for tensor in predictor.experts["global"].values())
    weights = [name for name in program.state_dict if "net." in name or "net_" in name]
    assert weights and sum(program.state_dict[name].numel() for name in weights) < 2 * whole
    assert not [node for node in program.graph.nodes if "stack_trace" in node.meta]


def test_a_bundle_averages_over_the_flips_that_training_showed(tmp_path: Path) -> None:
    model = saved(random_super_model(["A"], "global", prediction={"tta": True}), tmp_path / "model")
    pictures = write_pictures(tmp_path / "images", 3)
    assert predict_paths(model, pictures, tmp_path / "masks") == 0
    export(model, "monai-bundle", tmp_path / "out")
    assert description(tmp_path / "out")["flips"] == [[], [3]]
    network = predictor_of(load_super_model(model)).build("global")
    where = str(tmp_path / "out"), network, str(tmp_path / "images")
    for mask in segment_folder(*where, str(tmp_path / "again")):
        assert mask.read_bytes() == (tmp_path / "masks" / mask.name).read_bytes()
    told = {key: value for key, value in description(tmp_path / "out").items() if key != "flips"}
    (tmp_path / "out" / "export.json").write_text(json.dumps(told))
    with pytest.raises(FedSuperError, match="does not name its flips; export the super model again"):
        segment_folder(*where, str(tmp_path / "third"))


@pytest.mark.parametrize("prediction", [{"tta": True}, {"norm_statistics": "image"}, {"norm_statistics": "batch"}])
def test_a_program_predicts_as_the_study_says(prediction: dict[str, object], tmp_path: Path) -> None:
    study = {"model": {"channels": [4, 8], "norm": "batch"}, "prediction": prediction}
    model = random_super_model(["A"], "global", **study)
    plain = predictor_of(random_super_model(["A"], "global", **study | {"prediction": {}}))
    predictor = predictor_of(load_super_model(saved(model, tmp_path)))
    x = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = trace(predictor, as_predicted(predictor, "global")).module()(x)
    torch.testing.assert_close(found, predictor.logits("global", x), atol=1e-5, rtol=0)
    assert not torch.allclose(found, plain.logits("global", x), atol=1e-3)
