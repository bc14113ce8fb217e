"""Modes against their definitions: the gate of Algorithm 2, votes, ensembles and mixtures."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from prediction import CPU, images, run
from super_models import constant_super_model, random_super_model

from fedsuper.core.supermodel import SuperModel
from fedsuper.inference.modes.base import ModeOptions, create_mode
from fedsuper.inference.modes.select import DEFAULT_GAMMA
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch


@pytest.fixture(scope="module")
def model() -> SuperModel:
    return random_super_model()


# --- FedSM's gate -----------------------------------------------------------------------------------------------------


def test_select_is_algorithm_2(model: SuperModel) -> None:
    batch = list(images(10).split(1))
    outcome = run(model, "select", batch, gamma=0.6)
    predictor = Predictor(model, CPU)
    q = predictor.selector_probabilities(torch.cat(batch))
    for row, chosen in enumerate(outcome.chosen):
        best = int(q[row].argmax())
        expected = model.sites[best] if float(q[row, best]) > 0.6 else "global"
        assert chosen == expected
        direct = predictor.logits(expected, batch[row]).sigmoid()[0]
        torch.testing.assert_close(outcome.probabilities[row], direct, atol=1e-6, rtol=0)
    assert len(set(outcome.chosen)) > 1, "the test needs images on both sides of the gate"


def test_gamma_one_is_the_global_model_exactly(model: SuperModel) -> None:
    cases = list(images(6).split(1))
    gated, whole = run(model, "select", cases, gamma=1.0), run(model, "global", cases)
    assert torch.equal(gated.probabilities, whole.probabilities) and set(gated.chosen) == {"global"}


def test_gamma_zero_is_never_the_global_model(model: SuperModel) -> None:
    assert "global" not in run(model, "select", list(images(10).split(1)), gamma=0.0).chosen


@settings(max_examples=15, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1))
def test_share_of_global_does_not_fall_with_gamma(a: float, b: float) -> None:
    cases = list(images(8).split(1))
    model = random_super_model()
    low, high = (run(model, "select", cases, gamma=gamma).chosen for gamma in sorted((a, b)))
    assert all(after == "global" for before, after in zip(low, high, strict=True) if before == "global")


def test_a_sure_selector_is_the_sites_own_model_exactly() -> None:
    model = random_super_model(["A", "B"])
    sure = constant_super_model({"global": [True, True], "A": [True, True], "B": [True, True]}, {"A": 0.0, "B": 1.0})
    model.selector = sure.selector
    cases = list(images(5).split(1))
    picked, own = run(model, "select", cases, gamma=0.9), run(model, "own", cases, site="B")
    assert torch.equal(picked.probabilities, own.probabilities) and set(picked.chosen) == {"B"}


def test_gamma_comes_from_the_manifest_then_the_default(model: SuperModel) -> None:
    predictor = Predictor(model, CPU)
    assert create_mode(predictor).gamma == 0.6
    assert create_mode(predictor, "select", ModeOptions(gamma=0.2)).gamma == 0.2
    assert create_mode(predictor, "global").gamma is None
    bare = random_super_model()
    bare.manifest["gamma"] = None
    assert create_mode(Predictor(bare, CPU)).gamma == DEFAULT_GAMMA


def test_a_site_without_a_model_cannot_be_chosen() -> None:
    model = random_super_model(["A", "B"])
    del model.personal["B"]
    outcome = run(model, "select", list(images(6).split(1)), gamma=0.0)
    assert set(outcome.chosen) == {"A"}
    assert outcome.selector is not None and torch.equal(outcome.selector[:, 1], torch.zeros(6, dtype=torch.float64))


# --- volumes ----------------------------------------------------------------------------------------------------------


def test_a_volume_is_voted_by_its_mean_probability(model: SuperModel) -> None:
    volumes = [images(7, seed) for seed in range(4)]
    outcome = run(model, "select", volumes, gamma=0.5)
    predictor = Predictor(model, CPU)
    for index, volume in enumerate(volumes):
        chosen = set(outcome.chosen[7 * index: 7 * index + 7])
        mean = predictor.selector_probabilities(volume).mean(dim=0)
        expected = model.sites[int(mean.argmax())] if float(mean.max()) > 0.5 else "global"
        assert chosen == {expected}


def test_slices_may_decide_alone(model: SuperModel) -> None:
    volume = images(9)
    alone = run(model, "select", list(volume.split(1)), gamma=0.6)
    by_slice = run(model, "select", [volume], gamma=0.6, vote="slice")
    assert by_slice.chosen == alone.chosen and len(set(alone.chosen)) > 1


def test_a_batch_gives_what_single_images_give(model: SuperModel) -> None:
    cases = [images(3, 1), images(1, 2), images(2, 3)]
    together = run(model, "select", cases).probabilities
    apart = torch.cat([run(model, "select", [case]).probabilities for case in cases])
    torch.testing.assert_close(together, apart, atol=1e-6, rtol=0)


def test_every_expert_sees_a_slice_once(model: SuperModel, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = Predictor(model, CPU)
    seen: dict[str, int] = {}
    original = Predictor.logits

    def counted(self: Predictor, expert: str, batch: torch.Tensor) -> torch.Tensor:
        seen[expert] = seen.get(expert, 0) + len(batch)
        return original(self, expert, batch)

    monkeypatch.setattr(Predictor, "logits", counted)
    batch = SliceBatch(predictor, [images(2), images(3, 1)])
    for mode in ("select", "global", "ensemble", "mix", "site:B"):
        create_mode(predictor, mode).predict(batch)
    assert seen == dict.fromkeys(["global", "A", "B", "C"], 5)


# --- the other modes --------------------------------------------------------------------------------------------------


def test_ensemble_is_the_mean_of_personal_logits(model: SuperModel) -> None:
    case = images(3)
    predictor = Predictor(model, CPU)
    expected = torch.stack([predictor.logits(site, case) for site in model.sites]).mean(dim=0).sigmoid()
    torch.testing.assert_close(run(model, "ensemble", [case]).probabilities, expected)


def test_ensemble_of_identical_models_is_that_model(model: SuperModel) -> None:
    same = random_super_model()
    same.personal = {site: same.personal["A"] for site in same.sites}
    case = images(2)
    mean, one = run(same, "ensemble", [case]).probabilities, run(same, "site:A", [case]).probabilities
    torch.testing.assert_close(mean, one, atol=1e-6, rtol=0)


def test_ensemble_without_personal_models_is_the_global_one(model: SuperModel) -> None:
    only = random_super_model()
    only.personal = {}
    case = images(2)
    torch.testing.assert_close(run(only, "ensemble", [case]).probabilities, run(only, "global", [case]).probabilities)


def test_mix_weighs_probabilities_over_all_classes() -> None:
    model = random_super_model(["A", "B"], mode="mix")
    case = images(4)
    predictor = Predictor(model, CPU)
    assert predictor.classes == ["global", "A", "B"]
    q = predictor.selector_probabilities(case).mean(dim=0).float()
    expected = sum(
        weight * predictor.logits(name, case).sigmoid() for weight, name in zip(q, predictor.classes, strict=True)
    )
    torch.testing.assert_close(run(model, None, [case]).probabilities, expected, atol=1e-6, rtol=0)


def test_a_one_hot_mix_is_one_model() -> None:
    model = random_super_model(["A", "B"], mode="mix")
    answers = {"global": [True, True], "A": [True, True], "B": [True, True]}
    model.selector = constant_super_model(answers, {"g": 0.0, "A": 1.0, "B": 0.0}, mode="mix").selector
    case = images(3)
    mixed, own = run(model, "mix", [case]).probabilities, run(model, "site:A", [case]).probabilities
    torch.testing.assert_close(mixed, own, atol=1e-6, rtol=0)


def test_select_all_takes_the_likeliest_of_all_classes() -> None:
    model = random_super_model(["A", "B"], mode="select-all")
    cases = list(images(12).split(1))
    outcome = run(model, None, cases)
    assert outcome.selector is not None
    assert outcome.chosen == [["global", "A", "B"][index] for index in outcome.selector.argmax(dim=1).tolist()]
    answers = {"global": [True, True], "A": [True, True], "B": [True, True]}
    model.selector = constant_super_model(answers, {"g": 0.4, "A": 0.3, "B": 0.3}, mode="select-all").selector
    assert set(run(model, None, cases).chosen) == {"global"}


def test_gating_a_selector_that_knows_the_global_class() -> None:
    answers = {"global": [True, True], "A": [False, False], "B": [False, False]}
    model = constant_super_model(answers, {"g": 0.5, "A": 0.1, "B": 0.4}, mode="select-all")
    assert set(run(model, "select", [images(2)], gamma=0.3).chosen) == {"B"}
    assert set(run(model, "select", [images(2)], gamma=0.45).chosen) == {"global"}
