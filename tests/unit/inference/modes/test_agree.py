"""Agreement-weighted means, and the page that says how to add a mode."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from super_models import constant_super_model, random_super_model

from fedsuper.inference.modes import MODES, predict_modes
from fedsuper.inference.modes.agree import weights_of
from fedsuper.inference.modes.base import Outcome, create_mode
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch

HOW_TO = Path(__file__).parents[4] / "docs" / "how-to" / "add-a-mode.md"


def images(count: int) -> torch.Tensor:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def run(predictor: Predictor, *sizes: int) -> Outcome:
    return create_mode(predictor, "agree").predict(SliceBatch(predictor, list(images(sum(sizes)).split(list(sizes)))))


def test_a_model_that_agrees_with_nobody_fades() -> None:
    answers = {"global": [True, True], "A": [True, True], "B": [True, True], "C": [False, False]}
    outcome = run(Predictor(constant_super_model(answers)), 2)
    weights = outcome.weights[0]
    assert weights["C"] < 0.01 and weights["A"] == pytest.approx(weights["global"])
    assert bool((outcome.probabilities > 0.9).all())


def test_no_sharpness_is_the_mean_of_probabilities() -> None:
    predictor = Predictor(random_super_model(modes={"agree": {"sharpness": 0}}))
    batch = SliceBatch(predictor, [images(3)])
    mean = torch.stack([batch.logits(name).sigmoid() for name in predictor.experts]).mean(dim=0)
    torch.testing.assert_close(create_mode(predictor, "agree").predict(batch).probabilities, mean)


def test_equal_models_and_one_model_alone_are_that_model() -> None:
    model = random_super_model()
    model.personal = {site: model.global_model or {} for site in model.sites}
    predictor = Predictor(model)
    expected = create_mode(predictor, "global").predict(SliceBatch(predictor, [images(2)])).probabilities
    torch.testing.assert_close(run(predictor, 2).probabilities, expected)
    model.personal = {}
    torch.testing.assert_close(run(Predictor(model), 2).probabilities, expected)


def test_an_image_is_weighed_alone_and_a_volume_as_a_whole() -> None:
    predictor = Predictor(random_super_model())
    together = run(predictor, 3, 2)
    alone = create_mode(predictor, "agree").predict(SliceBatch(predictor, [images(5)[3:]]))
    torch.testing.assert_close(together.probabilities[3:], alone.probabilities, atol=1e-6, rtol=0)
    assert together.weights[0] == together.weights[2] != together.weights[3]


@given(st.integers(2, 5), st.floats(0, 50), st.integers(0, 99))
def test_weights_are_shares_and_follow_the_models(count: int, sharpness: float, seed: int) -> None:
    said = torch.rand(count, 2, 1, 4, 4, generator=torch.Generator().manual_seed(seed))
    weights = weights_of(said, sharpness)
    assert float(weights.sum()) == pytest.approx(1, abs=1e-5) and bool((weights >= 0).all())
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(weights_of(said[order], sharpness), weights[order])


# --- docs/how-to/add-a-mode.md ----------------------------------------------------------------------------------------


def test_the_documented_mode_passes_its_documented_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    text = HOW_TO.read_text(encoding="utf-8")
    mode, tests = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    line = re.search(r'^"surest": "([\w.]+):(\w+)",$', text, re.MULTILINE)
    assert line is not None
    module = ModuleType(line.group(1))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(mode, str(HOW_TO), "exec"), module.__dict__)
    monkeypatch.setitem(MODES, "surest", f"{line.group(1)}:{line.group(2)}")
    assert "surest" in predict_modes()
    names: dict = {}
    exec(compile(tests, str(HOW_TO), "exec"), names)
    found = [name for name in names if name.startswith("test_")]
    assert len(found) == 2
    for name in found:
        names[name]()


def test_the_documents_pointers_lead_somewhere() -> None:
    folder = Path(sys.modules["fedsuper.inference.modes"].__file__ or "").parent
    for name in re.findall(r"`(\w+\.py)`", HOW_TO.read_text(encoding="utf-8")):
        assert (folder / name).exists(), name
