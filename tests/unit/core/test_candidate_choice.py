"""Which model each site is handed: shrunk to what all sites saw, and the site's own where it has seen enough."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fedsuper.core.validated.candidate_choice import Figures, choose, common_choice, pooled

SPREAD = 0.08  # of a candidate's Dice between patients


def figures(mean: list[float], count: int, spread: float = SPREAD) -> Figures:
    """Candidates whose Dice varies independently."""
    covariance = [[spread**2 if row == column else 0.0 for column in range(len(mean))] for row in range(len(mean))]
    return Figures(mean, covariance, count)


def drawn(seed: int, sites: int = 5, candidates: int = 4) -> list[Figures]:
    random = torch.Generator().manual_seed(seed)
    counts = torch.randint(2, 30, (sites,), generator=random).tolist()
    return [Figures.of(torch.rand(candidates, count, generator=random)) for count in counts]


def test_figures_are_mean_and_covariance_over_patients() -> None:
    dice = torch.rand(3, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    told = Figures.of(dice)
    torch.testing.assert_close(torch.tensor(told.spread, dtype=torch.float64), torch.cov(dice))
    assert told.lead(2, 0) == pytest.approx(float((dice[2] - dice[0]).mean()))
    assert told.variance(2, 0) == pytest.approx(float((dice[2] - dice[0]).var()))
    one = Figures.of(dice[:, :1])
    assert one.count == 1 and not any(value for row in one.spread for value in row)


def test_a_sure_lead_on_a_handful_gives_way_to_what_all_others_saw() -> None:
    """Four images gave a personalized model .86 and the global one .75, without doubt; four others the reverse."""
    others = [figures([0.80, 0.78], 20) for _ in range(5)]
    dice = torch.tensor([[0.74, 0.76, 0.75, 0.75], [0.85, 0.87, 0.86, 0.86]])
    few = Figures.of(dice)
    assert choose([few]).taken == [1], "alone it has nothing else to go by"
    assert choose([few, *others]).taken == [0] * 6
    many = replace(few, count=400)
    assert choose([many, *others]).taken == [1, 0, 0, 0, 0, 0], "a hundred times as many are its own evidence"


def test_with_endless_images_every_site_takes_its_best() -> None:
    for seed in range(20):
        told = [replace(each, count=10**9) for each in drawn(seed)]
        best = [max(range(4), key=lambda one, each=each: each.mean[one]) for each in told]
        assert list(choose(told).taken) == best


def test_sites_that_do_not_differ_choose_alike() -> None:
    told = [figures([0.70, 0.75, 0.80, 0.79], count) for count in (3, 5, 40)]
    assert all(pooled(told, one, 0).between == 0 for one in (1, 2, 3))
    found = choose(told)
    assert set(found.taken) == {found.common} == {2}


def test_the_order_of_sites_does_not_matter() -> None:
    for seed in range(20):
        told = drawn(seed)
        order = torch.randperm(len(told), generator=torch.Generator().manual_seed(seed)).tolist()
        moved = choose([told[at] for at in order])
        assert list(moved.taken) == [choose(told).taken[at] for at in order]


@pytest.mark.parametrize(("dice", "taken"), [
    ([[0.8, 0.8, 0.8], [0.8, 0.8, 0.8], [0.8, 0.8, 0.8]], 0),  # all alike: the usual one
    ([[0.5, 0.6, 0.7], [0.9, 0.8, 0.9], [0.6, 0.6, 0.6]], 1),  # a clear lead
    ([[0.80, 0.90, 0.70], [0.95, 0.76, 0.72], [0.1, 0.1, 0.1]], 0),  # a lead by chance: one image
    ([[0.1, 0.1, 0.1], [0.80, 0.82, 0.84], [0.81, 0.83, 0.85]], 2),  # small, but the same on every image
    ([[0.4], [0.5], [0.6]], 2),  # one image: no error to speak of
])
def test_a_site_alone_leaves_the_usual_one_for_a_clear_lead(dice: list[list[float]], taken: int) -> None:
    assert choose([Figures.of(torch.tensor(dice, dtype=torch.float64))]).taken == [taken]


def test_a_tie_over_all_sites_goes_to_the_usual_one() -> None:
    close = [figures([0.800, 0.802, 0.5], 20) for _ in range(4)]
    assert choose(close).common == 0
    apart = [figures([0.800, 0.860, 0.5], 20) for _ in range(4)]
    assert choose(apart).common == 1


def test_how_clear_a_lead_must_be() -> None:
    """Four sites with 25 patients each, between which leads vary by .05: the error of a lead is .005."""
    told = [figures([0.8, 0.8 + 1.5 * 0.005, 0.5], 25, spread=0.05 / 2**0.5) for _ in range(4)]
    assert pooled(told, 1, 0).error == pytest.approx(0.005)
    assert common_choice(told, tie=1.0) == (1, 1)
    assert common_choice(told, tie=2.0) == (0, 1)
    assert choose(told).taken == [0] * 4, "a lead of one and a half errors is not clear"


def test_one_patient_a_site_says_nothing_of_chance() -> None:
    told = [figures([0.5, mean], 1, spread=0.0) for mean in (0.45, 0.58, 0.50, 0.52)]
    seen = pooled(told, 1, 0)
    assert seen.between == 0 and choose(told).taken == [0] * 4


def test_what_is_believed_lies_between_the_site_and_all_sites() -> None:
    for seed in range(20):
        told = drawn(seed)
        seen = pooled(told, 2, 1)
        for each, believed, error in zip(told, seen.at, seen.errors, strict=True):
            low, high = sorted((each.lead(2, 1), seen.mean))
            assert low - 1e-12 <= believed <= high + 1e-12 and error > 0
