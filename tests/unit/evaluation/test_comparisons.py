"""One definition of a difference: held to what it says of samples whose answer is known."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fedsuper.evaluation.comparisons import Comparison, Difference, baselines_of, compare_methods
from fedsuper.evaluation.statistics import Key, rank_biserial


def of_seed(values: dict[str, list[float]]) -> dict[Key, float]:
    return {(site, f"c{n}", f"i{n}"): value for site, found in values.items() for n, value in enumerate(found)}


def test_the_difference_is_that_of_the_client_averages_over_shared_seeds_and_images() -> None:
    a = {0: of_seed({"A": [0.9, 0.8], "B": [0.5]}), 1: of_seed({"A": [0.7, 0.8], "B": [0.7]}), 2: of_seed({"A": [0.0]})}
    b = {0: of_seed({"A": [0.8, 0.8], "B": [0.5]}), 1: of_seed({"A": [0.8, 0.6], "B": [0.4, 0.1]})}
    (found,) = compare_methods({"a": a, "b": b}, ["b"])
    assert found.per_seed == pytest.approx({"0": (0.05 + 0) / 2, "1": (0.05 + 0.3) / 2})
    assert found.overall.mean == pytest.approx(np.mean(list(found.per_seed.values())))
    assert found.per_site["B"].mean == pytest.approx(0.15) and found.per_site["A"].cases == 2
    assert found.spread == pytest.approx(np.std([0.025, 0.175], ddof=1))
    assert found.verdict == "few"
    assert Comparison.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_a_clear_gain_needs_the_corrected_test_too() -> None:
    rng = np.random.default_rng(0)
    base = rng.uniform(0.6, 0.9, 8)
    scores = {"fedavg": {0: of_seed({"A": base.tolist()})}}
    for number in range(9):
        gain = 0.02 + 0.002 * rng.standard_normal(8)
        scores[f"m{number}"] = {0: of_seed({"A": (base + gain).tolist()})}
    few = compare_methods({name: scores[name] for name in ("fedavg", "m0")}, ["fedavg"])[0]
    many = compare_methods(scores, ["fedavg"])[0]
    assert few.overall == many.overall and few.verdict == "better"
    assert many.p_holm >= 0.05 and many.verdict == "open"  # eight patients cannot carry nine comparisons


def test_rank_biserial_by_hand() -> None:
    assert rank_biserial(np.array([0.1, 0.2, 0.3])) == 1
    assert rank_biserial(np.array([0.1, -0.2, 0.3, 0.0])) == pytest.approx((1 + 3 - 2) / 6)
    assert rank_biserial(np.zeros(3)) == 0


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        (["fedsm", "local", "fedavg"], ["fedavg", "local"]),
        (["fedsm", "fedsm+lambda=0.3"], ["fedsm"]),
        (["fedsm", "fedavg+model.norm=batch"], ["fedavg+model.norm=batch"]),
        (["fedsm (route)", "fedsm (global)"], ["fedsm (global)"]),
        ([], []),
    ],
)
def test_baselines(methods: list[str], expected: list[str]) -> None:
    assert baselines_of(methods) == expected


def test_a_difference_that_shows_as_zero_is_nobodys_loss() -> None:
    assert Difference(-0.0002, -0.0004, -0.0001, 47).verdict == "open"
    assert Difference(-0.0010, -0.0020, -0.0001, 47).verdict == "worse"
    assert Difference(0.0, 0.0, 0.0, 47).verdict == "equal"
