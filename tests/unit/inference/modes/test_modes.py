"""What all modes have in common: their registry, their knobs, and the two switches that hold in every one of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from predict_inputs import picture, saved
from super_models import constant_super_model, random_super_model

from fedsuper.cli import main
from fedsuper.config.reading import parse_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.errors import FedSuperError
from fedsuper.inference.modes import MODES, evaluate_modes, mode_class, predict_modes
from fedsuper.inference.modes.base import Mode, create_mode
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.train.device import Compute

CPU = Compute(torch.device("cpu"))
BATCH_NORM = {"channels": [4, 8], "residual_units": 0, "norm": "batch"}
# Modes that ask the experts as they are; the others adapt a net of their own.
PLAIN = ["select", "mix", "global", "ensemble", "agree", "site:B"]


def slices(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


def run(model: SuperModel, mode: str, cases: list[torch.Tensor]) -> torch.Tensor:
    predictor = Predictor(model, CPU)
    return create_mode(predictor, mode).predict(SliceBatch(predictor, cases)).probabilities


@pytest.mark.parametrize("name", MODES)
def test_a_mode_knows_the_name_it_is_registered_under(name: str) -> None:
    found = mode_class(name)
    assert issubclass(found, Mode) and found.name == name


def test_the_list_of_modes_needs_no_torch() -> None:
    code = "import sys; from fedsuper.inference.modes import predict_modes as m; m(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_predict_offers_what_it_takes_and_evaluate_what_labels_allow() -> None:
    assert "own" not in predict_modes() and "average" not in predict_modes() and "site:NAME" in predict_modes()
    assert set(evaluate_modes()) == set(predict_modes()) | {"own", "average", "oracle"}


def test_knobs_of_a_mode_come_from_the_study() -> None:
    study = {"modes": {"tent": {"lr": 0.5, "online": False}}}
    tent = create_mode(Predictor(random_super_model(model=BATCH_NORM, **study), CPU), "tent")
    assert tent.knobs.model_dump() == {"lr": 0.5, "steps": 1, "online": False, "norm_statistics": "image"}
    assert parse_study(parse_study(study).to_json()).modes == study["modes"]


@pytest.mark.parametrize(("section", "told"), [
    ({"tent": {"rate": 1}}, "unknown key 'rate'"),
    ({"tent": {"lr": -1}}, "lr: "),
    ({"tint": {}}, "mode 'tint' is not known"),
    ({"select": {"gamma": 0.5}}, "unknown key 'gamma'"),
])
def test_knobs_that_no_mode_knows_are_refused(section: dict, told: str) -> None:
    with pytest.raises(FedSuperError, match=told):
        parse_study({"modes": section})


def test_the_documents_name_every_mode_and_every_knob_with_its_default() -> None:
    docs = Path(__file__).parents[4] / "docs"
    predict, study = ((docs / name).read_text() for name in ("how-to/predict.md", "reference/study.md"))
    told = dict(re.findall(r"^\| `modes\.([\w.-]+)` \| ([^|]+) \|", study, re.MULTILINE))
    fields = {name: mode_class(name).Knobs.model_fields for name in MODES}
    assert told == {f"{name}.{knob}": str(one.default).lower() for name in MODES for knob, one in fields[name].items()}
    assert all(f"`{name}`" in predict for name in evaluate_modes())


def test_a_super_model_of_local_models_refuses_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = saved(constant_super_model({"A": [True, True], "B": [True, True]}, mode="own"), tmp_path / "sm")
    for name in ("one", "two", "three"):
        picture(tmp_path / "in" / f"{name}.png")
    assert main(["predict", str(model), str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err.splitlines()
    refused = [line for line in told if line.startswith("fedsuper: ")]
    assert len(refused) == 1 and "say --mode site:NAME with one of A, B" in refused[0]
    assert not (tmp_path / "out").exists()


# --- norm statistics --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", PLAIN)
def test_image_statistics_are_those_of_each_slice_in_every_mode(mode: str) -> None:
    fresh = random_super_model(model=BATCH_NORM, prediction={"norm_statistics": "image"})
    together, alone = run(fresh, mode, [slices(1), slices(1, 1)]), run(fresh, mode, [slices(1)])
    torch.testing.assert_close(together[:1], alone, atol=1e-6, rtol=0)
    assert not torch.allclose(alone, run(random_super_model(model=BATCH_NORM), mode, [slices(1)]), atol=1e-3)


def test_the_global_mode_with_image_statistics_is_the_baseline_of_that_name() -> None:
    fresh = random_super_model(model=BATCH_NORM, prediction={"norm_statistics": "image"})
    assert torch.equal(run(fresh, "global", [slices(3)]), run(fresh, "global-stats", [slices(3)]))


@pytest.mark.parametrize("mode", PLAIN)
def test_batch_statistics_are_shared_by_a_volumes_slices_and_by_no_other_image(mode: str) -> None:
    fresh = random_super_model(model=BATCH_NORM, prediction={"norm_statistics": "batch"})
    volume, other = slices(4), slices(2, 1) * 5
    alone = run(fresh, mode, [volume])
    torch.testing.assert_close(run(fresh, mode, [other, volume])[2:], alone, atol=1e-6, rtol=0)
    assert not torch.allclose(run(fresh, mode, [volume[:1]]), alone[:1], atol=1e-3)


# --- test-time augmentation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", PLAIN)
@pytest.mark.parametrize(("augment", "shown"), [
    ({}, [(3,)]),
    ({"flip": False, "flip_vertical": True}, [(2,)]),
    ({"flip_vertical": True}, [(3,), (2,), (2, 3)]),
    ({"flip": False}, []),
    ({"global": {"flip_vertical": True}, "personal": {"flip_vertical": False}}, [(3,)]),
])
def test_a_mask_follows_the_flips_that_training_showed_and_no_other(
    augment: dict[str, object], shown: list[tuple[int, ...]], mode: str
) -> None:
    model = random_super_model(prediction={"tta": True}, augment=augment)
    model.selector = constant_super_model(dict.fromkeys("ABC", [True, True]), {"A": 0.5, "B": 0.2, "C": 0.3}).selector
    case = slices(2)
    there = run(model, mode, [case])
    for axes in ((3,), (2,), (2, 3)):
        turned = run(model, mode, [case.flip(axes)]).flip(axes)
        if axes in shown:
            torch.testing.assert_close(turned, there)
        else:
            assert not torch.allclose(turned, there, atol=1e-3)


def test_flips_are_refused_where_training_showed_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = saved(random_super_model(augment={"flip": False}), tmp_path / "sm")
    picture(tmp_path / "x.png", (40, 30))
    asked = ["predict", str(model), str(tmp_path / "x.png"), "--out", str(tmp_path / "out")]
    for switch in (["--tta"], ["--set", "prediction.tta=true"]):
        assert main([*asked, *switch]) == 2
        assert "showed no flipped image" in capsys.readouterr().err and not (tmp_path / "out").exists()
    assert main([*asked, "--set", "prediction.tta=false"]) == 0


def test_augmentation_of_an_adapting_mode_is_refused() -> None:
    with pytest.raises(FedSuperError, match="mode route adapts itself"):
        create_mode(Predictor(random_super_model(prediction={"tta": True}), CPU), "route")
