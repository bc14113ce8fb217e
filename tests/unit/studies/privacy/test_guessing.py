"""Membership inference on a federation that remembers: the attack measures what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedsuper.studies.privacy import guessing


def test_the_advantage_is_an_area_under_a_curve() -> None:
    low, high = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert guessing.area_under_curve(high, low) == 1 and guessing.area_under_curve(low, high) == 0
    assert guessing.area_under_curve(low, low) == pytest.approx(0.5)


def test_every_way_is_a_study_that_trains_and_is_attacked(tiny_root: Path, tmp_path: Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guessing, "STUDY", guessing.STUDY | {"rounds": 1, "local_epochs": 1})
    found = guessing.guess(tiny_root, tmp_path, "dp-sgd, noise 4")
    assert 0 <= found.advantage <= 1 and 0 <= found.dice <= 1
    assert found.epsilon is not None and 0 < found.epsilon < 10
