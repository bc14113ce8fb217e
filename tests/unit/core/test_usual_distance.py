"""How usual a distance is: a share that holds for images nobody has seen, also of a site with a handful."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from fedsuper.core.validated.usual_distance import (
    EDGES,
    REVIEW_BELOW,
    expected_beyond,
    familiarity,
    farthest,
    farthest_by_shares,
    foreign,
    histogram,
    student_beyond,
)

ASKED = torch.tensor([0.5, 3.0, 5.0, 8.0, torch.inf], dtype=torch.float64)


@given(st.lists(st.floats(1e-3, 1e7), min_size=1, max_size=50), st.lists(st.floats(1e-3, 1e7), min_size=2, max_size=50))
@settings(max_examples=50, deadline=None)
def test_familiarity_falls_with_distance_and_lies_between_0_and_1(seen: list[float], asked: list[float]) -> None:
    shares = expected_beyond([histogram(torch.tensor(seen, dtype=torch.float64))])
    values = familiarity(torch.tensor(sorted(asked), dtype=torch.float64), shares)
    assert bool(((values >= 0) & (values <= 1)).all()) and bool((values.diff() <= 1e-12).all())
    assert float(familiarity(torch.tensor([1e12, torch.inf], dtype=torch.float64), shares).max()) == 0


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 40, 151])
def test_students_distribution(degrees: int) -> None:
    x = torch.linspace(-5, 30, 200, dtype=torch.float64)
    expected = torch.from_numpy(student.sf(x.numpy(), degrees))
    torch.testing.assert_close(student_beyond(x, degrees), expected, rtol=0, atol=1e-12)


def test_many_images_are_taken_as_they_are() -> None:
    random = torch.Generator().manual_seed(0)
    near, far = (torch.randn(5000, generator=random, dtype=torch.float64).mul(0.3).add(shift).exp() for shift in (0, 1))
    shares = expected_beyond([histogram(near), histogram(far)])
    for place in (30, 40, 44, 50):
        seen = sum(float((each > EDGES[place]).double().mean()) for each in (near, far)) / 2
        assert shares[place] == pytest.approx(seen, abs=0.01)


def test_one_in_twenty_of_a_small_federations_own_images_is_flagged() -> None:
    """At most: five sites with 3 to 8 images, five hundred times; a limit read off those images flags more."""
    random = torch.Generator().manual_seed(1)

    def drawn(middle: float, count: int) -> torch.Tensor:
        return torch.randn(count, generator=random, dtype=torch.float64).mul(0.35).add(middle).exp()

    flagged, by_themselves = [], []
    for _ in range(500):
        middles = torch.randn(5, generator=random).mul(0.3).tolist()
        seen = [drawn(middle, count) for middle, count in zip(middles, (3, 4, 5, 6, 8), strict=True)]
        fresh = torch.cat([drawn(middle, 20) for middle in middles])
        shares = expected_beyond([histogram(each) for each in seen])
        flagged.append(float((familiarity(fresh, shares) < REVIEW_BELOW).double().mean()))
        own = sum((each[None, :] >= fresh[:, None]).double().mean(dim=1) for each in seen) / 5
        by_themselves.append(float((own < REVIEW_BELOW).double().mean()))
    assert 0.02 < sum(flagged) / 500 < REVIEW_BELOW < 0.055 < sum(by_themselves) / 500


def test_a_single_image_still_makes_a_scale() -> None:
    shares = expected_beyond([histogram(torch.tensor([1.0]))])
    near, far = familiarity(torch.tensor([1.0, 1000.0], dtype=torch.float64), shares).tolist()
    assert near > 0.4 and far < REVIEW_BELOW


def test_foreign_is_far_beyond_every_validation_image() -> None:
    seen = [histogram(torch.tensor([0.1, 1.0, 3.0])), histogram(torch.tensor([0.2]))]
    assert 3.0 <= farthest(seen) < 3.5
    assert foreign(ASKED, farthest(seen)).tolist() == [False, False, False, True, True]


def test_an_earlier_super_model_tells_its_farthest_image_by_shares() -> None:
    """It kept the share of validation images beyond each edge, which ends at the farthest one."""
    own = [float(sum(image > edge for image in (0.1, 1.0, 3.0))) / 3 for edge in EDGES]
    assert farthest_by_shares(own) == farthest([histogram(torch.tensor([0.1, 1.0, 3.0]))])
    assert foreign(ASKED, farthest_by_shares([1.0] * len(EDGES))).tolist() == [False, False, False, False, True]
