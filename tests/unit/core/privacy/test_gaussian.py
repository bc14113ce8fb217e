"""The Gaussian mechanism on a change, and what the accountant says of it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsuper.core.feature_sums import epsilon
from fedsuper.core.privacy.accountant import DELTA, spent
from fedsuper.core.privacy.gaussian import SENSITIVITY, system_random, with_noise
from fedsuper.core.robust import distance

ORIGIN = {"w": torch.ones(400), "n": torch.tensor(3)}


@given(st.floats(0.01, 1e6), st.floats(0.01, 10))
def test_whatever_a_site_learned_its_change_lies_in_the_ball(length: float, clip: float) -> None:
    moved = {"w": ORIGIN["w"] + length * torch.linspace(-1, 1, 400), "n": torch.tensor(9)}
    out = with_noise(moved, ORIGIN, clip, 0.0, system_random())
    assert distance(out, ORIGIN) <= clip * (1 + 1e-4) + 1e-3  # float32 near 1 is no finer
    assert int(out["n"]) == 3, "a counter is the server's own"


def test_the_noise_has_the_size_it_says_and_is_never_drawn_twice() -> None:
    first, second = (with_noise(ORIGIN, ORIGIN, 2.0, 0.5, system_random()) for _ in range(2))
    assert not torch.equal(first["w"], second["w"]), "noise from the study's seed could be taken off again"
    assert float((first["w"] - 1).std()) == pytest.approx(1.0, rel=0.2)


def test_a_gradient_is_clipped_from_zero() -> None:
    out = with_noise({"w": torch.full((4,), 10.0)}, None, 1.0, 0.0, system_random())
    assert float(out["w"].norm()) == pytest.approx(1.0)


@pytest.mark.parametrize(("noise", "count"), [(1.0, 1), (2.0, 10), (10.0, 100)])
def test_the_accountant_agrees_with_the_closed_form_of_composed_gaussians(noise: float, count: int) -> None:
    exact = epsilon(noise / math.sqrt(count), DELTA)
    assert exact <= spent({noise: count}) <= 1.35 * exact, "an upper bound, and not a loose one"


def test_no_noise_is_no_guarantee_and_nothing_sent_costs_nothing() -> None:
    assert spent({0.0: 1}) == math.inf and spent({}) == spent({1.0: 0}) == 0.0
    assert spent({1 / SENSITIVITY: 3}) > spent({1 / SENSITIVITY: 1}) > spent({1.0: 1})
