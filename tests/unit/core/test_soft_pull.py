"""SoftPull (FedSM, Eq. 11): every property the paper and the algebra give it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from states import LAMBDAS, by_site, lists_of_states, state, vector

from fedsuper.core.aggregate import soft_pull, weighted_mean
from fedsuper.core.state import State
from fedsuper.errors import FedSuperError

TIGHT = {"rtol": 1e-9, "atol": 1e-9}


def effective(lam: float, count: int) -> float:
    """lambda' = (K lambda - 1) / (K - 1)."""
    return (count * lam - 1) / (count - 1)


def matrix(states: dict[str, State]) -> torch.Tensor:
    """One row per site."""
    return torch.stack([vector(each) for each in states.values()])


@given(lists_of_states(least=2), LAMBDAS)
def test_it_is_equation_11(states: list[State], lam: float) -> None:
    rows = torch.stack([vector(each) for each in states])
    count = len(states)
    others = [torch.cat([rows[:k], rows[k + 1 :]]).sum(dim=0) for k in range(count)]
    expected = torch.stack([lam * rows[k] + (1 - lam) / (count - 1) * others[k] for k in range(count)])
    torch.testing.assert_close(matrix(soft_pull(by_site(states), lam)), expected, **TIGHT)


@given(lists_of_states(least=1), LAMBDAS)
def test_the_unweighted_mean_is_kept(states: list[State], lam: float) -> None:
    before, after = matrix(by_site(states)), matrix(soft_pull(by_site(states), lam))
    torch.testing.assert_close(after.mean(dim=0), before.mean(dim=0), **TIGHT)


def test_the_mean_by_sample_count_is_not_kept() -> None:
    states = [state([0.0] * 6), state([1.0] * 6), state([5.0] * 6)]
    weights = [1.0, 2.0, 7.0]
    before = vector(weighted_mean(states, weights))
    after = vector(weighted_mean(list(soft_pull(by_site(states), 0.7).values()), weights))
    assert not torch.allclose(before, after)


@given(lists_of_states(least=2))
def test_lambda_one_over_k_gives_every_site_the_plain_mean(states: list[State]) -> None:
    mean = vector(weighted_mean(states, [1.0] * len(states)))
    for row in matrix(soft_pull(by_site(states), 1 / len(states))):
        torch.testing.assert_close(row, mean, **TIGHT)


@given(lists_of_states(least=1))
def test_lambda_one_changes_nothing(states: list[State]) -> None:
    assert torch.equal(matrix(soft_pull(by_site(states), 1.0)), matrix(by_site(states)))


@given(lists_of_states(least=2), LAMBDAS)
def test_the_spread_shrinks_by_lambda_prime(states: list[State], lam: float) -> None:
    before, after = matrix(by_site(states)), matrix(soft_pull(by_site(states), lam))
    factor = abs(effective(lam, len(states)))
    torch.testing.assert_close(
        (after - after.mean(dim=0)).norm(), factor * (before - before.mean(dim=0)).norm(), **TIGHT
    )


@given(lists_of_states(least=2, most=4), LAMBDAS, st.randoms(use_true_random=False))
def test_sites_may_come_in_any_order(states: list[State], lam: float, random) -> None:
    named = by_site(states)
    order = list(named)
    random.shuffle(order)
    shuffled = soft_pull({site: named[site] for site in order}, lam)
    for site, pulled in soft_pull(named, lam).items():
        torch.testing.assert_close(vector(shuffled[site]), vector(pulled), **TIGHT)


@given(lists_of_states(least=2), LAMBDAS)
def test_twice_is_lambda_prime_squared(states: list[State], lam: float) -> None:
    twice = matrix(soft_pull(soft_pull(by_site(states), lam), lam))
    rows = matrix(by_site(states))
    factor = effective(lam, len(states)) ** 2
    torch.testing.assert_close(twice, factor * rows + (1 - factor) * rows.mean(dim=0), **TIGHT)


@given(lists_of_states(least=1), LAMBDAS)
def test_counters_stay_each_sites_own_and_inputs_are_left_alone(states: list[State], lam: float) -> None:
    copies = [vector(each).clone() for each in states]
    pulled = soft_pull(by_site(states), lam)
    for site, original in by_site(states).items():
        assert pulled[site]["num_batches_tracked"] == original["num_batches_tracked"]
        pulled[site]["weight"].add_(1)
        pulled[site]["num_batches_tracked"].add_(1)
    for each, copy in zip(states, copies, strict=True):
        assert torch.equal(vector(each), copy)


@given(lists_of_states(least=2), st.data())
def test_variances_stay_positive_for_every_lambda_up_to_one(states: list[State], data: st.DataObject) -> None:
    """All coefficients of Eq. 11 are non-negative for lambda in [0, 1]: even below 1/K no variance turns negative."""
    lam = data.draw(LAMBDAS)
    assert all((pulled["running_var"] >= -1e-12).all() for pulled in soft_pull(by_site(states), lam).values())


@given(lists_of_states(least=1, most=1), LAMBDAS)
def test_a_single_reporter_comes_back_unchanged(states: list[State], lam: float) -> None:
    """Public code multiplies its weights by lambda."""
    assert torch.equal(matrix(soft_pull(by_site(states), lam)), matrix(by_site(states)))


@pytest.mark.parametrize("lam", [-0.01, 1.01, math.nan])
def test_a_lambda_outside_0_1_is_refused(lam: float) -> None:
    with pytest.raises(FedSuperError, match="lambda"):
        soft_pull(by_site([state([0.0] * 6)] * 2), lam)


def test_nobody_to_pull_is_refused() -> None:
    with pytest.raises(FedSuperError, match="at least one site"):
        soft_pull({}, 0.5)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_poisoned_model_is_refused_with_its_sites_name(value: float) -> None:
    with pytest.raises(FedSuperError, match="^Basel: "):
        soft_pull({"Aachen": state([0.0] * 6), "Basel": state([value] + [0.0] * 5)}, 0.5)
