"""FedSM's threshold gate (Algorithm 2): when an image goes to the global model."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsuper.core.supermodel import SuperModel, gate

LOGITS = st.lists(st.lists(st.floats(-30, 30), min_size=3, max_size=3), min_size=1, max_size=8)
GAMMAS = st.floats(0, 1)


def probabilities(logits: list[list[float]]) -> torch.Tensor:
    return torch.tensor(logits, dtype=torch.float64).softmax(dim=1)


@given(LOGITS)
def test_gamma_zero_never_and_gamma_one_always_picks_the_global_model(logits: list[list[float]]) -> None:
    q = probabilities(logits)
    assert (gate(q, 0.0) >= 0).all()
    assert (gate(q, 1.0) == -1).all()


def test_a_saturated_softmax_does_not_pass_gamma_one() -> None:
    q = torch.tensor([[1.0, 0.0]])
    assert gate(q, 1.0).tolist() == [-1]
    assert gate(q, 0.999).tolist() == [0]


@given(LOGITS, GAMMAS, GAMMAS)
def test_the_share_of_the_global_model_grows_with_gamma(logits: list[list[float]], one: float, other: float) -> None:
    q = probabilities(logits)
    low, high = sorted((one, other))
    assert ((gate(q, low) == -1) <= (gate(q, high) == -1)).all()


@given(LOGITS, GAMMAS)
def test_a_chosen_site_is_the_most_probable_one_and_strictly_above_gamma(
    logits: list[list[float]], gamma: float
) -> None:
    q = probabilities(logits)
    for row, choice in zip(q, gate(q, gamma).tolist(), strict=True):
        if choice >= 0:
            assert row[choice] == row.max() and row[choice] > gamma
        else:
            assert row.max() <= gamma


@given(LOGITS)
def test_below_one_over_k_the_global_model_is_never_picked(logits: list[list[float]]) -> None:
    assert (gate(probabilities(logits), 1 / 3 - 1e-9) >= 0).all()


def test_equality_with_gamma_is_not_enough() -> None:
    q = torch.tensor([[0.5, 0.25, 0.25]])
    assert gate(q, 0.5).tolist() == [-1] and gate(q, 0.499).tolist() == [0]


# --- the one codec ----------------------------------------------------------------------------------------------------


def a_state(value: float) -> dict[str, torch.Tensor]:
    return {"w": torch.full((2,), value)}


def test_a_super_model_comes_back_from_its_parts() -> None:
    whole = SuperModel(
        ["B", "A", "never trained"], a_state(0), {"A": a_state(1), "B": a_state(2)}, a_state(3), "select",
        {"gamma": 0.5}, {"rotation": a_state(4)},
    )
    parts = whole.to_models()
    assert list(parts) == ["global", "selector", "personal/B", "personal/A", "extra/rotation"]
    back = SuperModel.from_models(parts, whole.sites, whole.mode, whole.manifest)
    assert back.to_models() == parts and list(back.experts()) == ["global", "B", "A"]
    assert (back.sites, back.mode, back.manifest) == (whole.sites, "select", {"gamma": 0.5})


def test_absent_parts_stay_absent() -> None:
    whole = SuperModel(["A"], personal={"A": a_state(1)}, mode="own")
    back = SuperModel.from_models(whole.to_models(), ["A"], "own", {})
    assert back.global_model is None and back.selector is None and not back.extras


def test_a_site_called_like_a_fixed_part_does_not_take_its_place() -> None:
    whole = SuperModel(["global", "selector"], a_state(0), {"global": a_state(1), "selector": a_state(2)}, a_state(3))
    back = SuperModel.from_models(whole.to_models(), whole.sites, whole.mode, {})
    assert back.global_model is not None and float(back.global_model["w"][0]) == 0
    assert float(back.personal["global"]["w"][0]) == 1
    assert back.selector is not None and float(back.selector["w"][0]) == 3


def test_a_notebook_prints_a_line_and_no_weights() -> None:
    shown = repr(SuperModel(["A"], a_state(0), {"A": a_state(1)}, a_state(2), "select", {"history": [1] * 999}))
    assert "tensor" not in shown and "history" not in shown and len(shown) < 120 and "1 personalized" in shown
