"""Shrinkage, temperature and familiarity from counts; the gate that expects Dice."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsuper.core.calibration import (
    SHRINKAGES,
    TEMPERATURES,
    CandidateCounts,
    case_mean,
    choose_candidate,
    evaluate_candidates,
    nearest,
)
from fedsuper.core.discriminant import discriminant
from fedsuper.core.expected_dice import expected_dice_gate, shrink_rows
from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.validated.usual_distance import REVIEW_BELOW, familiarity
from fedsuper.errors import FedSuperError

WIDTH = 12


def site(label: int, count: int, seed: int) -> torch.Tensor:
    """Sites two standard deviations apart in one direction."""
    random = torch.Generator().manual_seed(1000 * label + seed)
    rows = torch.randn(count, WIDTH, generator=random, dtype=torch.float64)
    rows[:, 0] += 2 * label
    return rows


def calibrated(sites: int = 3, count: int = 60) -> tuple[list[FeatureSums], dict[str, CandidateCounts]]:
    sums = [FeatureSums.of(site(label, count, 0)) for label in range(sites)]
    counts = {f"S{label}": evaluate_candidates(sums, site(label, count, 1), label, range(count))
              for label in range(sites)}
    return sums, counts


def test_the_choice_is_the_candidate_of_least_cross_entropy() -> None:
    sums, counts = calibrated()
    choice = choose_candidate(counts)
    held_out = [site(label, 60, 1) for label in range(3)]

    def entropy(shrinkage: float, temperature: float) -> float:
        model = discriminant(sums, shrinkage, temperature)
        return float(torch.stack([-model.posterior(rows)[:, k].log().mean() for k, rows in enumerate(held_out)]).mean())

    every = {(s, t): entropy(s, t) for s in SHRINKAGES for t in TEMPERATURES}
    assert (choice.shrinkage, choice.temperature) == min(every, key=lambda pair: every[pair])
    assert choice.cross_entropy == pytest.approx(min(every.values()))
    assert 0.6 < choice.accuracy < 1  # two standard deviations apart: 1 of 3 boundaries errs


def test_a_patients_slices_are_one_image() -> None:
    sums, _ = calibrated()
    rows = site(1, 12, 3)
    together = evaluate_candidates(sums, rows, 1, [0] * 6 + [1] * 6)
    apart = evaluate_candidates(sums, rows, 1, range(12))
    assert together.images == 2 and apart.images == 12
    assert sum(together.distances[0]) == 2
    model = discriminant(sums, SHRINKAGES[0])
    voted = case_mean(model.posterior(rows), torch.tensor([0] * 6 + [1] * 6))
    torch.testing.assert_close(voted[0], model.posterior(rows[:6]).mean(dim=0))


def test_counts_over_another_grid_are_refused_by_name() -> None:
    _, counts = calibrated(2, 10)
    with pytest.raises(FedSuperError, match="S1: its counts are not over this version's candidates"):
        choose_candidate(counts | {"S1": replace(counts["S1"], right=counts["S1"].right[:-1])})
    with pytest.raises(FedSuperError, match="no site counted"):
        choose_candidate({})


def test_about_five_percent_of_like_images_are_flagged_and_strangers_are() -> None:
    sums, counts = calibrated(count=200)
    choice = choose_candidate(counts)
    model = discriminant(sums, choice.shrinkage, choice.temperature)

    def flagged(rows: torch.Tensor) -> float:
        away = nearest(model.distances(rows), torch.arange(len(rows)))
        return float((familiarity(away, choice.farther) < REVIEW_BELOW).double().mean())

    fresh = torch.cat([site(label, 400, 2) for label in range(3)])
    assert 0.02 < flagged(fresh) < 0.09
    assert flagged(fresh + 3 * torch.ones(WIDTH)) > 0.95


# --- the gate --------------------------------------------------------------------------------------------------------

TABLES = st.integers(0, 10**6).map(lambda seed: torch.rand(3, 4, generator=torch.Generator().manual_seed(seed)))


@given(TABLES)
def test_certainty_picks_the_best_expert_of_that_site(utility: torch.Tensor) -> None:
    assert torch.equal(expected_dice_gate(torch.eye(3), utility), utility.argmax(dim=1))


@given(TABLES, st.integers(0, 10**6))
def test_equal_rows_make_the_choice_independent_of_the_selector(utility: torch.Tensor, seed: int) -> None:
    q = torch.rand(20, 3, generator=torch.Generator().manual_seed(seed)).softmax(dim=1)
    alike = utility[:1].expand(3, 4)
    assert len(expected_dice_gate(q, alike).unique()) == 1
    nothing_known = shrink_rows(utility, [0, 0, 0], [None] * 3)
    assert bool((expected_dice_gate(q, nothing_known) == utility.double().mean(dim=0).argmax()).all())


@given(TABLES)
def test_many_images_keep_a_row_and_few_move_it_to_what_the_others_saw(utility: torch.Tensor) -> None:
    kept = shrink_rows(utility, [1e12, 1e12, 1e12], [1, 2, 3])
    torch.testing.assert_close(kept, utility.double())
    gain = utility.double() - utility[:, :1].double()
    half, home = shrink_rows(utility, [4, 4, 4], [1, 2, 3], half=4) - utility[:, :1], torch.eye(3, dtype=torch.bool)
    own = gain[:, 1:][home]
    torch.testing.assert_close(half[:, 1:][home], (own + own.mean()) / 2)
    strangers = (gain[:, 1:].sum(dim=0) - own) / 2
    torch.testing.assert_close(half[0, 2:], (gain[0, 2:] + strangers[1:]) / 2)
    assert bool((half[:, 0] == 0).all())


def test_a_small_site_keeps_its_own_expert_where_experts_serve_their_own_site() -> None:
    """Experts are worth .05 more than the global model at home and .2 less elsewhere; the last site has two images."""
    utility = torch.full((4, 5), 0.6)
    utility[:, 0] = 0.8
    utility[range(4), range(1, 5)] = 0.85
    table = shrink_rows(utility, [20, 20, 20, 2], [1, 2, 3, 4])
    assert expected_dice_gate(torch.eye(4), table).tolist() == [1, 2, 3, 4]
    silent = shrink_rows(torch.cat([utility[:3], torch.zeros(1, 5)]), [20, 20, 20, 0], [1, 2, 3, 4])
    assert expected_dice_gate(torch.eye(4), silent).tolist() == [1, 2, 3, 4], "as it was for all the others"


def test_what_nobody_measured_is_the_least_of_its_row_and_enters_no_mean() -> None:
    table = shrink_rows(torch.tensor([[0.8, 0.9, torch.nan], [0.7, 0.6, 0.9]]), [4, 4], [1, 2], half=4)
    assert table[0].tolist() == pytest.approx([0.8, 0.925, 0.8]), "own experts gained .1 and .2"
    assert table[1].tolist() == pytest.approx([0.7, 0.6, 0.875])


def test_a_doubtful_image_goes_where_a_mistake_costs_least() -> None:
    utility = torch.tensor([[0.80, 0.90, 0.40], [0.80, 0.40, 0.90]])  # columns: global, first site's, second's
    assert expected_dice_gate(torch.tensor([[0.55, 0.45], [0.95, 0.05]]), utility).tolist() == [0, 1]
    with pytest.raises(FedSuperError, match="for 3 sites"):
        shrink_rows(utility, [1, 2, 3], [None] * 3)
