"""Gamma: the sites' curves against gating image by image, and the choice among them."""

from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from super_models import constant_super_model, random_super_model

from fedsuper.core.metrics import dice_scores
from fedsuper.core.validated.gamma_choice import GRID, TIE, choose_gamma
from fedsuper.data.prepared.samples import Samples
from fedsuper.errors import FedSuperError
from fedsuper.inference.gamma import batch_of, gamma_statistics, volume_sizes
from fedsuper.inference.modes.base import ModeOptions, create_mode
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.models.selector_small import SmallSelector
from fedsuper.models.selector_statistics import MeanSelector
from fedsuper.train.device import Compute

CPU = Compute(torch.device("cpu"))


def some_samples(names: list[str], regions: int = 2, seed: int = 0) -> Samples:
    random = torch.Generator().manual_seed(seed)
    contrast = 3 * torch.rand(len(names), 1, 1, 1, generator=random)
    images = contrast * torch.randn(len(names), 3, 32, 32, generator=random)
    masks = (torch.rand(len(names), regions, 32, 32, generator=random) > 0.6).to(torch.uint8)
    return Samples(images, masks, names, names)


def curve(dice: list[float], images: int = 4) -> dict:
    sums = [value * images for value in dice]
    return {"gamma": list(GRID), "dice_sum": sums, "to_global": [0] * len(GRID), "images": images}


def test_the_curve_is_what_the_predictor_does_at_every_gamma() -> None:
    model = random_super_model()
    samples = some_samples([f"eye{index}" for index in range(12)])
    statistics = gamma_statistics(batch_of(Predictor(model, CPU), samples), samples)
    predictor = Predictor(model, CPU)
    batch = SliceBatch(predictor, samples.images.split(1))
    for index, gamma in enumerate(GRID):
        outcome = create_mode(predictor, "select", ModeOptions(gamma=gamma)).predict(batch)
        dice = dice_scores(outcome.probabilities > 0.5, samples.masks).mean(dim=1)
        assert statistics["dice_sum"][index] == pytest.approx(float(dice.sum()), abs=1e-9)
        assert statistics["to_global"][index] == outcome.chosen.count("global")
    assert statistics["images"] == 12
    assert 0 < statistics["to_global"][5] < 12, "the test needs images on both sides of the gate"


def test_share_of_global_rises_from_none_to_all() -> None:
    eight = some_samples(list("abcdefgh"))
    statistics = gamma_statistics(batch_of(Predictor(random_super_model(), CPU), eight), eight)
    shares = statistics["to_global"]
    assert shares[0] == 0 and shares[-1] == 8 and shares == sorted(shares)
    assert json.loads(json.dumps(statistics)) == statistics


def test_a_saturated_selector_still_obeys_gamma_one() -> None:
    model = constant_super_model({"global": [True, True], "A": [False, False]}, q={"A": 1.0})
    two = some_samples(["a", "b"])
    statistics = gamma_statistics(batch_of(Predictor(model, CPU), two), two)
    assert statistics["to_global"] == [0] * (len(GRID) - 1) + [2]


def test_a_volume_counts_once_and_is_gated_as_a_whole() -> None:
    names = ["v#0000", "v#0001", "v#0002", "w#0000", "w#0001", "photo"]
    assert volume_sizes(names) == [3, 2, 1]
    model = random_super_model()
    samples = some_samples(names)
    statistics = gamma_statistics(batch_of(Predictor(model, CPU), samples), samples)
    assert statistics["images"] == 3
    predictor = Predictor(model, CPU)
    batch = SliceBatch(predictor, samples.images.split([3, 2, 1]))
    outcome = create_mode(predictor, "select", ModeOptions(gamma=0.0)).predict(batch)
    total = 0.0
    for first, last in ((0, 3), (3, 5), (5, 6)):
        predicted = (outcome.probabilities[first:last] > 0.5).transpose(0, 1)[None]
        total += float(dice_scores(predicted, samples.masks[first:last].transpose(0, 1)[None]).mean())
    assert statistics["dice_sum"][0] == pytest.approx(total)


def test_auto_takes_the_best_mean_over_sites() -> None:
    peak = [0.5] * len(GRID)
    peak[4] = 0.9
    many = [0.6] * len(GRID)
    many[2] = 0.8
    chosen = choose_gamma({"small": curve(peak, images=2), "large": curve(many, images=500)}, "auto")
    assert chosen["gamma"] == GRID[4], "sites count alike, whatever their size"
    assert [point["gamma"] for point in chosen["gamma_curve"]] == list(GRID)
    assert chosen["gamma_curve"][4]["dice"] == pytest.approx((0.9 + 0.6) / 2)


def test_ties_go_to_the_largest_gamma() -> None:
    flat = [0.8] * len(GRID)
    assert choose_gamma({"A": curve(flat)}, "auto")["gamma"] == 1.0
    falls = [0.8] * (len(GRID) - 3) + [0.8 - TIE / 2, 0.8 - 3 * TIE, 0.5]
    assert choose_gamma({"A": curve(falls)}, "auto")["gamma"] == GRID[-3]


@given(st.lists(st.floats(0, 1), min_size=len(GRID), max_size=len(GRID)))
def test_auto_is_never_worse_than_a_tie(dice: list[float]) -> None:
    chosen = choose_gamma({"A": curve(dice, images=1)}, "auto")
    assert dice[GRID.index(chosen["gamma"])] >= max(dice) - TIE - 1e-12


def test_a_number_is_kept_and_the_curve_is_written() -> None:
    chosen = choose_gamma({"A": curve([0.1] * len(GRID))}, 0.37)
    assert chosen["gamma"] == 0.37 and len(chosen["gamma_curve"]) == len(GRID)
    assert all(math.isclose(point["dice"], 0.1) for point in chosen["gamma_curve"])


@pytest.mark.parametrize("wanted", [-0.1, 1.5])
def test_gamma_outside_its_range(wanted: float) -> None:
    with pytest.raises(FedSuperError, match="gamma must lie in"):
        choose_gamma({"A": curve([0.1] * len(GRID))}, wanted)


def test_a_curve_of_another_version_names_its_site() -> None:
    other = curve([0.1] * len(GRID)) | {"gamma": [0.0, 1.0]}
    with pytest.raises(FedSuperError, match="far: its gamma curve"):
        choose_gamma({"near": curve([0.1] * len(GRID)), "far": other}, "auto")


def test_two_selectors_as_one_have_the_mean_of_their_probabilities_and_both_their_features() -> None:
    first, second = (selector_of(seed) for seed in (0, 1))
    both, images = MeanSelector(first, second), torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        mean = (first(images).softmax(dim=1) + second(images).softmax(dim=1)) / 2
        assert torch.allclose(both(images).exp().float(), mean, atol=1e-6)
        assert both.features(images).shape == (3, 2 * first.features(images).shape[1])


def selector_of(seed: int) -> SmallSelector:
    torch.manual_seed(seed)
    return SmallSelector(3, 4).eval()
