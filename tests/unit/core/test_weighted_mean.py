"""FedAvg's rule: the properties an average of state dicts must have."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from states import WEIGHTS, lists_of_states, state, vector

from fedsuper.core.aggregate import adam_step, moving_average, weighted_mean
from fedsuper.core.state import State
from fedsuper.errors import FedSuperError


@given(lists_of_states(), st.data())
def test_it_is_the_weighted_mean_with_normalized_weights(states: list[State], data: st.DataObject) -> None:
    weights = data.draw(st.lists(WEIGHTS, min_size=len(states), max_size=len(states)))
    total = math.fsum(weights)
    expected = sum(weight / total * vector(each) for weight, each in zip(weights, states, strict=True))
    torch.testing.assert_close(vector(weighted_mean(states, weights)), expected, rtol=1e-9, atol=1e-9)


@given(
    lists_of_states(least=1, most=1),
    st.lists(WEIGHTS, min_size=1, max_size=6),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_identical_uploads_come_back_unchanged(states: list[State], weights: list[float], dtype: torch.dtype) -> None:
    one = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in states[0].items()}
    mean = weighted_mean([one] * len(weights), weights)
    for name, tensor in one.items():
        assert mean[name].dtype == tensor.dtype
        torch.testing.assert_close(mean[name], tensor, rtol=1e-7 if dtype == torch.float32 else 1e-14, atol=0)


@given(lists_of_states(least=2))
def test_only_the_shares_of_the_weights_matter(states: list[State]) -> None:
    weights = [float(index + 1) for index in range(len(states))]
    scaled = [4.0 * weight for weight in weights]
    assert torch.equal(vector(weighted_mean(states, weights)), vector(weighted_mean(states, scaled)))


@given(lists_of_states(least=2))
def test_a_site_of_weight_zero_has_no_say_in_the_weights(states: list[State]) -> None:
    mean = weighted_mean(states, [1.0] * (len(states) - 1) + [0.0])
    torch.testing.assert_close(vector(mean), vector(weighted_mean(states[:-1], [1.0] * (len(states) - 1))))


@given(lists_of_states())
def test_counters_are_never_averaged_and_variances_stay_positive(states: list[State]) -> None:
    mean = weighted_mean(states, [1.0] * len(states))
    assert mean["num_batches_tracked"] == max(each["num_batches_tracked"] for each in states)
    assert mean["num_batches_tracked"].dtype == torch.int64
    assert (mean["running_var"] >= 0).all()


def test_a_counter_of_23_stays_23() -> None:
    """Averaging as floats and casting back truncates: 23 becomes 22."""
    states = [state([0.0] * 6, 23), state([0.0] * 6, 23), state([0.0] * 6, 23)]
    assert weighted_mean(states, [1.0, 1.0, 1.0])["num_batches_tracked"] == 23


def test_half_precision_is_summed_in_double() -> None:
    """2048 + 1 is 2048 in float16: a sum in the entry's own type would lose every small term."""
    states = [{"w": torch.tensor([value], dtype=torch.float16)} for value in (2048.0, 1.0, 1.0, 1.0)]
    expected = torch.tensor([(2048 + 3) / 4]).half()
    mean = weighted_mean(states, [1.0] * 4)["w"]
    assert mean.dtype == torch.float16 and mean == expected


def test_the_inputs_are_left_alone() -> None:
    states = [state([1.0] * 6, 1), state([2.0] * 6, 2)]
    mean = weighted_mean(states, [1.0, 1.0])
    mean["weight"].add_(100)
    mean["num_batches_tracked"].add_(100)
    assert states[0]["weight"].eq(1).all() and states[1]["num_batches_tracked"] == 2


NAN = state([1.0, 2.0, math.nan, 0.0, 0.0, 0.0])
OTHER_SHAPE = state([0.0] * 6) | {"weight": torch.zeros(3, 2, dtype=torch.float64)}
OTHER_TYPE = state([0.0] * 6, dtype=torch.float32)
FEWER = {name: tensor for name, tensor in state([0.0] * 6).items() if name != "weight"}
MORE = state([0.0] * 6) | {"extra": torch.zeros(1)}


@pytest.mark.parametrize(
    ("bad", "word"),
    [(NAN, "NaN"), (OTHER_SHAPE, "(3, 2)"), (OTHER_TYPE, "float32"), (FEWER, "missing weight"), (MORE, "extra")],
)
def test_a_bad_update_is_refused_in_one_line_that_names_its_site(bad: State, word: str) -> None:
    with pytest.raises(FedSuperError) as caught:
        weighted_mean([state([0.0] * 6), bad], [1.0, 1.0], ["Aachen", "Basel"])
    assert str(caught.value).startswith("Basel: ") and word in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("weights", [[], [1.0], [1.0, -1.0], [0.0, 0.0], [1.0, math.nan], [math.inf, 1.0]])
def test_weights_that_make_no_mean_are_refused(weights: list[float]) -> None:
    with pytest.raises(FedSuperError):
        weighted_mean([state([0.0] * 6)] * 2, weights)


def test_no_updates_at_all_are_refused() -> None:
    with pytest.raises(FedSuperError, match="at least one site"):
        weighted_mean([], [])


@given(lists_of_states(least=2, most=2), st.floats(0, 1))
def test_a_moving_average_lies_between_old_and_new(states: list[State], tau: float) -> None:
    old, new = states
    mixed = moving_average(old, new, tau)
    torch.testing.assert_close(vector(mixed), (1 - tau) * vector(old) + tau * vector(new), rtol=1e-12, atol=1e-12)
    assert mixed["num_batches_tracked"] == new["num_batches_tracked"] and (mixed["running_var"] >= 0).all()
    assert all(mixed[name].data_ptr() not in (old[name].data_ptr(), new[name].data_ptr()) for name in old)


@given(lists_of_states(least=2, most=2))
def test_tau_one_is_the_new_model_and_tau_zero_the_old_one(states: list[State]) -> None:
    old, new = states
    assert torch.equal(vector(moving_average(old, new, 1.0)), vector(new))
    assert torch.equal(vector(moving_average(old, new, 0.0)), vector(old))


@settings(max_examples=20)
@given(st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=1, max_size=5), st.floats(1e-4, 0.1))
def test_the_servers_adam_is_torchs(gradients: list[list[float]], lr: float) -> None:
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))
    optimizer = torch.optim.Adam([parameter], lr)
    weights = {"w": parameter.detach().clone()}
    m, v = {"w": torch.zeros(3, dtype=torch.float64)}, {"w": torch.zeros(3, dtype=torch.float64)}
    for step, numbers in enumerate(gradients, start=1):
        gradient = torch.tensor(numbers, dtype=torch.float64)
        parameter.grad = gradient.clone()
        optimizer.step()
        weights, m, v = adam_step(weights, {"w": gradient}, m, v, step, lr)
    torch.testing.assert_close(weights["w"], parameter.detach(), rtol=1e-10, atol=1e-12)
