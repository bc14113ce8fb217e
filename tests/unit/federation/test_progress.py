"""Seconds left: an honest guess from the pace of the rounds, not of the start-up."""

from __future__ import annotations

import io
from typing import Any

import pytest

from fedsuper.config.reading import parse_study
from fedsuper.engines.flare.launch.events import total_rounds
from fedsuper.federation import progress
from fedsuper.federation.progress import Progress
from fedsuper.methods import create_method
from fedsuper.methods.protocol.phases import planned_rounds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in its only entry."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def lines(total: int | None, moments: list[tuple[float, int]], clock: list[float]) -> list[str]:
    stream = io.StringIO()
    shown = Progress("fedsm", total, stream)
    for moment, number in moments:
        clock[0] = moment
        shown.round(number, "3/3 sites")
    return stream.getvalue().splitlines()


def test_the_pace_is_that_of_the_rounds_not_of_the_start_up(clock: list[float]) -> None:
    shown = lines(10, [(50, 1), (52, 2), (54, 3), (74, 10)], clock)
    assert shown[0] == "fedsm: round 1/10  3/3 sites"
    assert [line.rsplit("  ", 1)[1] for line in shown[1:]] == ["16 s left", "14 s left", "0 s left"]


def test_a_resumed_run_counts_its_own_rounds(clock: list[float]) -> None:
    assert lines(10, [(30, 8), (33, 9)], clock)[-1].endswith("3 s left")


def test_an_unknown_end_has_no_guess_and_extra_rounds_no_negative_one(clock: list[float]) -> None:
    assert lines(None, [(3, 1)], clock) == ["fedsm: round 1  3/3 sites"]
    assert lines(2, [(1, 1), (2, 2), (3, 3)], clock)[-1].endswith("  0 s left")


@pytest.mark.parametrize(("study", "rounds"), [
    ({"method": "fedsm", "rounds": 7}, 7),
    ({"method": "fedsm-extra", "rounds": 2}, 153),
    ({"method": "fedsm-ensemble", "rounds": 2, "fedsm-ensemble": {"extra_rounds": 5}}, 8),
    ({"method": "fedsm-extra", "rounds": "auto"}, None),
])
def test_the_rounds_to_expect_count_every_phase(study: dict[str, Any], rounds: int | None) -> None:
    """FedSM-extra showed "round 33/2, 0 s left"."""
    read = parse_study(study)
    assert planned_rounds(read, create_method(read).phases()) == rounds == total_rounds(read)
