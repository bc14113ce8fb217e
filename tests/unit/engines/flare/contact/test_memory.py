"""Memory goes back to the system now and then, not with every task."""

from __future__ import annotations

import pytest

from fedsuper.engines.flare.contact import memory


def test_memory_is_given_back_once_in_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    now, times = [100.0], []
    monkeypatch.setattr(memory.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(memory, "give_back", lambda: times.append(now[0]))
    tidy = memory.Tidy(period=10.0)
    for second in (101.0, 109.9, 110.0, 111.0, 119.9, 135.0, 136.0):
        now[0] = second
        tidy()
    assert times == [110.0, 135.0]
