"""A server that inverts a site's update sees the image, and does not where the update is clipped and noised."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from fedsuper.studies.privacy import inversion


def test_noise_hides_what_the_update_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inversion, "STEPS", 60)
    torch.manual_seed(0)
    plain, noised = inversion.run(tmp_path, ways=("as it is", "noise 1"))
    assert plain.likeness > 0.5 and plain.epsilon is None
    assert abs(noised.likeness) < 0.3 and noised.epsilon is not None and 5 < noised.epsilon < 15
    assert len(json.loads((tmp_path / "inversion.json").read_text())) == 2
    assert (tmp_path / "inversion.png").stat().st_size > 1000


def test_likeness_is_a_correlation() -> None:
    image = torch.rand(1, 3, 8, 8)
    assert inversion.likeness(image, 2 * image + 1) == pytest.approx(1, abs=1e-5)
    assert inversion.likeness(image, -image) == pytest.approx(-1, abs=1e-5)
