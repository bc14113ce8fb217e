"""Intervals and tests: what they must say of samples whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuper.evaluation.statistics import Key, bootstrap, holm, paired


def scores(values: dict[str, list[float]], per_case: int = 1) -> dict[Key, float]:
    """Site -> values, `per_case` consecutive ones of one patient."""
    return {
        (site, f"case{index // per_case}", f"image{index}"): value
        for site, found in values.items() for index, value in enumerate(found)
    }


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_means_and_bounds(a: list[float], b: list[float]) -> None:
    values = scores({"A": a, "B": b})
    images, sites = bootstrap(values, by_site=False, resamples=200), bootstrap(values, by_site=True, resamples=200)
    assert images.mean == pytest.approx(np.mean(a + b)) and sites.mean == pytest.approx((np.mean(a) + np.mean(b)) / 2)
    for interval in (images, sites):
        assert min(a + b) - 1e-9 <= interval.low <= interval.high <= max(a + b) + 1e-9


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for trial in range(200):
        interval = bootstrap(scores({"A": rng.normal(0.8, 0.1, 40).tolist()}), by_site=False, resamples=400, seed=trial)
        hits += interval.low <= 0.8 <= interval.high
    assert 0.88 <= hits / 200 <= 0.99


def test_slices_of_one_patient_are_not_independent() -> None:
    rng = np.random.default_rng(1)
    patients = rng.uniform(0, 1, 12)
    slices = np.repeat(patients, 20).tolist()
    as_cases = bootstrap(scores({"A": slices}, per_case=20), by_site=False)
    as_images = bootstrap(scores({"A": slices}), by_site=False)
    assert as_cases.high - as_cases.low > 3 * (as_images.high - as_images.low)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = scores({"A": [0.1, 0.5, 0.9, 0.4]})
    assert bootstrap(values, by_site=True) == bootstrap(values, by_site=True)


def test_a_steady_gain_is_found_and_no_gain_is_not() -> None:
    rng = np.random.default_rng(2)
    base = rng.uniform(0.5, 0.9, 30)
    a, b = scores({"A": (base + rng.normal(0.02, 0.01, 30)).tolist()}), scores({"A": base.tolist()})
    found = paired(a, b)
    assert found.p < 1e-3 and found.difference.low > 0 and found.cases == 30
    assert paired(b, a).difference.mean == pytest.approx(-found.difference.mean)
    equal = paired(b, b)
    assert equal.p == 1.0 and equal.difference.mean == equal.difference.low == equal.difference.high == 0
    noise = scores({"A": (base + rng.normal(0, 0.05, 30)).tolist()})
    assert paired(noise, b).p > 0.01


def test_only_shared_images_are_compared() -> None:
    a, b = scores({"A": [0.5, 0.6, 0.7]}), scores({"A": [0.4, 0.5], "B": [0.1]})
    assert paired(a, b).cases == 2
    with pytest.raises(ValueError, match="share no image"):
        paired(scores({"A": [0.5]}), scores({"B": [0.5]}))


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []
