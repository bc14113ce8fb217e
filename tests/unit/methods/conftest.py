"""The toy federation as a fixture."""

from __future__ import annotations

import functools

import pytest
from toy import MakeToy, make_toy


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> MakeToy:
    """Makes toy federations: toy("fedprox", {"mu": 0.1}, lr=0.05)."""
    return functools.partial(make_toy, monkeypatch)
