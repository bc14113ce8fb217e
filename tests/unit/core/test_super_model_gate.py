"""FedSM's threshold gate (Algorithm 2): when an image goes to the global model."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsuper.core.supermodel import gate

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
