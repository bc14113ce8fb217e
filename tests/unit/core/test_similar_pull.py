"""SoftPull towards those alike: between SoftPull and pulling the nearest alone."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from states import LAMBDAS, by_site, lists_of_states, state, vector

from fedsuper.core.aggregate import similar_pull, similarity_weights, soft_pull, squared_distances
from fedsuper.core.state import State

TIGHT = {"rtol": 1e-9, "atol": 1e-9}


@given(lists_of_states(least=1), LAMBDAS, st.randoms(use_true_random=False))
def test_the_order_of_sites_does_not_matter(states: list[State], lam: float, random) -> None:
    named = by_site(states)
    shuffled = list(named)
    random.shuffle(shuffled)
    one, other = similar_pull(named, lam), similar_pull({site: named[site] for site in shuffled}, lam)
    for site in named:
        torch.testing.assert_close(vector(one[site]), vector(other[site]), **TIGHT)


def test_equally_far_apart_it_is_softpull() -> None:
    corners = [state([3.0 if index == corner else 0.0 for index in range(6)]) for corner in range(4)]
    for site, pulled in soft_pull(by_site(corners), 0.6).items():
        torch.testing.assert_close(vector(similar_pull(by_site(corners), 0.6)[site]), vector(pulled), **TIGHT)


def test_a_stranger_pulls_less_than_a_neighbor() -> None:
    near, beside, far = state([0.0] * 6), state([1.0] * 6), state([10.0] * 6)
    weights = similarity_weights(squared_distances([near, beside, far]))
    assert float(weights[0, 1]) > 0.6 > 0.4 > float(weights[0, 2])
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(3, dtype=torch.float64))
    pulled = similar_pull(by_site([near, beside, far]), 0.5)
    plain = soft_pull(by_site([near, beside, far]), 0.5)
    first = next(iter(pulled))
    assert vector(pulled[first])[0] < vector(plain[first])[0]


@given(lists_of_states(least=1))
def test_identical_models_stay_as_they_are(states: list[State]) -> None:
    same = [states[0]] * len(states)
    for pulled in similar_pull(by_site(same), 0.7).values():
        torch.testing.assert_close(vector(pulled), vector(states[0]), **TIGHT)
