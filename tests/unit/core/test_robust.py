"""What a few liars can do to each rule, and who stands out."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuper.core.aggregate import soft_pull
from fedsuper.core.robust import CENTERS, clipped, distance, median_state, pull_to, stands_out, towers, trimmed_mean
from fedsuper.core.state import State

FLOATS = st.floats(-10, 10)
TIGHT = {"rtol": 1e-12, "atol": 1e-12}


def state(values: list[float], count: int = 1) -> State:
    return {"w": torch.tensor(values, dtype=torch.float64), "n": torch.tensor(count)}


@settings(max_examples=100, deadline=None)
@given(honest=st.lists(st.lists(FLOATS, min_size=3, max_size=3), min_size=4, max_size=4),
       lies=st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=2, max_size=2),
       rule=st.sampled_from(["median", "trimmed"]))
def test_two_liars_of_six_cannot_leave_the_range_of_the_honest(
    honest: list[list[float]], lies: list[list[float]], rule: str
) -> None:
    true = torch.tensor(honest, dtype=torch.float64)
    found = CENTERS[rule]([state(values) for values in lies + honest])["w"]
    assert bool(((found >= true.amin(0) - 1e-9) & (found <= true.amax(0) + 1e-9)).all())


def test_the_centers_of_known_numbers() -> None:
    states = [state([value], int(value)) for value in (5.0, 1.0, 100.0, 2.0, 3.0, 4.0)]
    assert float(median_state(states)["w"]) == 3.5
    assert float(trimmed_mean(states)["w"]) == 3.5  # without the two lowest and the two highest
    assert float(trimmed_mean(states[:3])["w"]) == 5.0
    assert float(median_state(states[:1])["w"]) == 5.0 == float(trimmed_mean(states[:2])["w"]) + 2.0
    assert int(median_state(states)["n"]) == 100, "counters take the largest"


@settings(max_examples=50, deadline=None)
@given(values=st.lists(FLOATS, min_size=3, max_size=3), start=st.lists(FLOATS, min_size=3, max_size=3),
       longest=st.floats(0.1, 5))
def test_a_clipped_change_points_the_same_way_and_is_no_longer(
    values: list[float], start: list[float], longest: float
) -> None:
    origin = state(start)
    found = clipped(state(values), origin, longest)
    length = distance(state(values), origin)
    assert distance(found, origin) <= min(length, longest) + 1e-9
    if length > longest:
        torch.testing.assert_close((found["w"] - origin["w"]) * length / longest, state(values)["w"] - origin["w"])
    else:
        assert torch.equal(found["w"], state(values)["w"])


def test_pulling_towards_the_mean_is_softpull() -> None:
    states = {site: state([float(place), 2.0 * place]) for place, site in enumerate("abcd")}
    mean = {"w": torch.stack([one["w"] for one in states.values()]).mean(dim=0), "n": torch.tensor(1)}
    for site, pulled in soft_pull(states, 0.7).items():
        torch.testing.assert_close(pull_to(states, mean, 0.7)[site]["w"], pulled["w"], **TIGHT)


@settings(max_examples=100, deadline=None)
@given(honest=st.lists(st.floats(0.5, 2.5), min_size=3, max_size=8), factor=st.floats(400, 1e30))
def test_one_liar_stands_out_and_no_honest_site_does(honest: list[float], factor: float) -> None:
    norms = {f"site-{index}": norm for index, norm in enumerate(honest)}
    assert stands_out(norms) == {} == towers(norms)
    assert set(stands_out(norms | {"liar": factor})) == {"liar"}
    assert set(towers(norms | {"liar": 1e4 * factor})) == {"liar"}


def test_the_past_tells_where_two_sites_cannot() -> None:
    assert stands_out({"a": 1.0, "b": 1e9}) == {}
    assert set(stands_out({"a": 1.0, "b": 1e9}, [1.0, 1.2, 0.8])) == {"b"}
