"""What validation images decide: cleaning, the estimate of quality, selector and gate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.validated.candidate_choice import Figures
from fedsuper.core.validated.one_piece import islands, largest_pieces, worth_cleaning
from fedsuper.core.validated.quality import HALF_WIDTHS, PENALTIES, QualityModel, fit_quality
from fedsuper.core.validated.selection_choice import Selection, choose_option, options_of


def test_islands_are_all_but_the_largest_piece() -> None:
    mask = np.zeros((2, 6, 6), dtype=bool)
    mask[0, 0, :3] = mask[1, 0, 2] = True  # one piece through both slices
    mask[0, 4, 4:] = mask[1, 2, 5] = True  # two others, the second touches the first of them at a corner only
    assert islands(mask).sum() == 3 and not islands(mask)[:, 0].any()
    assert not islands(np.zeros((1, 3, 3), dtype=bool)).any()


def test_cleaning_takes_islands_only_of_the_regions_named() -> None:
    p = torch.full((1, 2, 5, 5), 0.2)
    p[:, :, 0, :3], p[:, :, 4, 4] = 0.9, 0.8
    cleaned = largest_pieces(p, [1])
    assert torch.equal(cleaned[:, 0], p[:, 0])
    expected = p[:, 1].clone()
    expected[:, 4, 4] = 0
    assert torch.equal(cleaned[:, 1], expected), "values below the threshold stay: borders are drawn between pixels"
    assert largest_pieces(p, []) is p and float(p[0, 1, 4, 4]) == pytest.approx(0.8), "the input is left alone"


def test_a_region_is_cleaned_where_the_mean_over_sites_gains() -> None:
    told = {"A": {"images": 2, "raw": {"disc": 1.0, "cup": 1.0, "rim": 1.0},
                  "one_piece": {"disc": 1.2, "cup": 1.2, "rim": 1.0}},
            "B": {"images": 4, "raw": {"disc": 2.0, "cup": 2.0, "rim": 2.0},
                  "one_piece": {"disc": 2.0, "cup": 1.4, "rim": 2.0}}}
    assert worth_cleaning(told) == ["disc"], "cup: +.1 at A, -.15 at B; rim: nothing"
    assert worth_cleaning({}) == []


def rows(site: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(site)
    psi = torch.randn(count, 3, generator=random, dtype=torch.float64) + site
    noise = torch.randn(count, generator=random, dtype=torch.float64)
    return psi, 0.6 + psi @ torch.tensor([0.05, -0.02, 0.0], dtype=torch.float64) + 0.03 * noise


def test_quality_from_sums_is_the_regression_on_the_rows_themselves() -> None:
    sites = [rows(site, 40) for site in range(4)]
    model = fit_quality([FeatureSums.of(torch.column_stack(pair)) for pair in sites])
    assert model is not None and model.sites == 4

    def ridge(pairs: list[tuple[torch.Tensor, torch.Tensor]], penalty: float) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = torch.cat([pair[0] for pair in pairs]), torch.cat([pair[1] for pair in pairs])
        scale = x.std(dim=0, correction=0)
        z = (x - x.mean(dim=0)) / scale
        w = torch.linalg.solve(z.T @ z / len(z) + penalty * torch.eye(3), z.T @ (y - y.mean()) / len(z)) / scale
        return w, y.mean() - w @ x.mean(dim=0)

    def left_out(penalty: float) -> float:
        errors = []
        for at, (x, y) in enumerate(sites):
            w, b = ridge([*sites[:at], *sites[at + 1:]], penalty)
            errors.append(float((y - x @ w - b).square().mean()))
        return sum(errors) / len(errors)

    w, b = ridge(sites, model.penalty)
    torch.testing.assert_close(torch.tensor(model.weights, dtype=torch.float64), w)
    assert model.bias == pytest.approx(float(b))
    assert model.error**2 == pytest.approx(min(left_out(penalty) for penalty in PENALTIES))
    value, low, high = model.estimate(torch.zeros(3))
    assert value == pytest.approx(model.bias) and high - low == pytest.approx(2 * HALF_WIDTHS * model.error)
    assert QualityModel.from_json(vars(model)) == model


def test_quality_needs_three_sites_and_stays_within_dice() -> None:
    sums = [FeatureSums.of(torch.column_stack(rows(site, 10))) for site in range(2)]
    assert fit_quality([*sums, FeatureSums.nothing(4)]) is None
    assert QualityModel([1.0], 0.0, 0.1, 1.0, 3).estimate(torch.tensor([9.0])) == (1.0, 1.0, 1.0)


def told(options: dict[str, list[float]]) -> dict[str, Any]:
    """A site's answer from the Dice of its patients under every option."""
    figures = Figures.of(torch.tensor(list(options.values()), dtype=torch.float64))
    spread = [dict(zip(options, row, strict=True)) for row in figures.spread]
    return {"patients": figures.count, "options": {name: {"dice": mean, "spread": row} for name, mean, row
                                                   in zip(options, figures.mean, spread, strict=True)}}


FIRST, OTHER, PAPER = "statistics/expected-dice", "both/threshold", "trained/threshold"


def test_options_are_in_the_order_of_preference() -> None:
    assert [one.name for one in options_of("trained", "auto")] == ["trained/expected-dice", "trained/threshold"]
    assert [one.kind for one in options_of("auto", "threshold")] == ["statistics", "both", "trained"]
    names = [one.name for one in options_of("auto", "auto")]
    assert len(set(names)) == 6 and names[0] == FIRST and Selection.named(names[-1]).name == names[-1]


def test_a_lead_within_its_error_changes_nothing_and_a_clear_one_does() -> None:
    """The same mean lead of .01: where one patient gains and another loses it is chance, where all gain it is not."""
    base = [0.80, 0.70, 0.90, 0.60, 0.75, 0.85, 0.65, 0.70, 0.80, 0.90]
    by_one = [*base[:2], base[2] - 0.2, base[3] + 0.3, *base[4:]]
    by_all = [value + 0.01 + 0.001 * (-1) ** at for at, value in enumerate(base)]
    for better, taken in ((by_one, FIRST), (by_all, OTHER)):
        found = choose_option({site: told({OTHER: better, FIRST: base}) for site in "AB"})
        assert found.taken == taken and found.best == OTHER
        assert found.dice == {FIRST: pytest.approx(0.765), OTHER: pytest.approx(0.775)}
        assert found.lead == pytest.approx(0.01 if taken == FIRST else 0)


def test_what_not_every_site_measured_is_no_choice() -> None:
    low, high = [0.5, 0.52, 0.51], [0.9, 0.92, 0.91]
    found = choose_option({"A": told({PAPER: low, OTHER: high}), "B": told({PAPER: low})})
    assert found.taken == PAPER and list(found.dice) == [PAPER]


@given(st.integers(0, 10**6))
def test_the_choice_does_not_depend_on_the_order_of_sites_and_options(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    names = [one.name for one in options_of("auto", "auto")]
    dice = {site: torch.rand(6, count, generator=random).tolist() for site, count in (("A", 3), ("B", 9), ("C", 1))}
    here = {site: told(dict(zip(names, rows, strict=True))) for site, rows in dice.items()}
    there = {site: told(dict(zip(reversed(names), reversed(rows), strict=True))) for site, rows
             in reversed(dice.items())}
    assert choose_option(here).taken == choose_option(there).taken
