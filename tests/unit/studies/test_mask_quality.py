"""An estimate of Dice beside the truth."""

from __future__ import annotations

import pytest
import torch

from fedsuper.core.validated.quality import QualityModel
from fedsuper.studies.facts.mask_quality import held_against


@pytest.mark.parametrize(("weight", "bias", "expected"), [
    (1.0, 0.0, [1.0, 1.0, 0.0, 0.0, 1.0]),  # every mask judged as it is
    (1.0, -0.1, [1.0, 1.0, 0.1, -0.1, 0.0]),  # too modest by .1, with an interval narrower than that
    (-1.0, 1.0, [-1.0, 0.0, 0.48, 0.0, 0.2]),  # the wrong way round
])
def test_an_estimate_is_held_against_labels(weight: float, bias: float, expected: list[float]) -> None:
    truth = torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9], dtype=torch.float64)
    rows = torch.stack([truth, truth], dim=1)  # one feature that is the Dice itself
    told = held_against(QualityModel([weight], bias, 0.01, 1.0, 3), rows)
    assert told == pytest.approx(expected)
