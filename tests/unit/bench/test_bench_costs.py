"""Bytes on the wire counted on real messages, the cost of an epoch on a small scale, and the page of all results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from fedsuper.bench import epoch_cost, table, two_workers, whole_round, wire_bytes
from fedsuper.bench.performance_page import page


@pytest.mark.parametrize("wire, models", [("fp32", 2), ("fp16", 1)])
def test_a_round_sends_two_models_each_way_and_nothing_else(wire: str, models: int) -> None:
    """Guards the wire without a stopwatch: a further model, a doubled type or a forgotten selector fails here."""
    found = wire_bytes.traffic("statistics", wire)
    for way in ("megabytes_down", "megabytes_up"):
        assert models * found["model_megabytes"] <= found[way] <= models * found["model_megabytes"] + 0.01


def test_an_epoch_is_compared_with_the_bare_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SIDE": 32, "BATCHES": 1, "REPEATS": 1, "NETS": {"plain": (0, 1.05)}}.items():
        monkeypatch.setattr(epoch_cost, name, value)
    site_with = epoch_cost.site_with
    monkeypatch.setattr(epoch_cost, "site_with", lambda study: site_with(study, 32))
    threads = torch.get_num_threads()
    result = epoch_cost.run(tmp_path)
    torch.set_num_threads(threads)
    assert result["plain"]["over_bare"] > 0 and len(result["promises"]) == 1


def test_the_page_tells_kept_and_missed(tmp_path: Path) -> None:
    result = {"setting": "here", "sites": {"6": {"seconds": 0.12345}}, "promises": {"fast": True, "small": False}}
    (tmp_path / "server.json").write_text(json.dumps(result))
    text = page(tmp_path)
    assert "## server" in text and "| sites, 6, seconds | 0.123 |" in text
    assert "- kept: fast" in text and "- **missed**: small" in text and "## train" not in text


@pytest.mark.parametrize("both, kept", [(5.0, [True, True]), (7.5, [False, True]), (9.0, [False, False])])
def test_a_comparison_is_held_against_what_the_cores_can_do(
    both: float, kept: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_workers, "write_retina", lambda folder, **_: folder.mkdir(parents=True))
    monkeypatch.setattr(two_workers, "seconds_with", lambda workers, _: 10.0 if workers == 1 else both)
    monkeypatch.setattr(two_workers, "computing", lambda side_by_side: 7.0 if side_by_side else 10.0)
    result = two_workers.run(tmp_path)
    assert result["two_workers_of_one"] == both / 10 and list(result["promises"].values()) == kept
    assert "compare: two workers of one" in table("compare", result) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("a_round, rest, kept", [(0.5, 1.0, [True, True]), (0.55, 9.0, [False, True]),
                                                 (0.7, 0.0, [True, False])])
def test_a_disturbed_turn_of_the_simulator_does_not_count(
    a_round: float, rest: float, kept: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One turn of each was disturbed in its rounds, the other in the rest; neither alone is undisturbed."""
    here = [whole_round.Spent([1.0, 5.0], 2.0), whole_round.Spent([3.0, 3.0], 9.0)]
    simulated = [whole_round.Spent([a_round, 9.0], rest + 7), whole_round.Spent([8.0, 9.0], rest)]
    assert whole_round.undisturbed(here) == (4.0, 1.0)
    here = [whole_round.Spent([0.5, 0.2], 1.0), whole_round.Spent([0.3, 0.2], 1.0), *here]  # with hardly an image
    simulated = [whole_round.Spent([0.6, 0.3], 1.0), whole_round.Spent([0.4, 0.9], 1.0), *simulated]
    monkeypatch.setattr(whole_round, "write_retina", lambda folder, **_: folder.mkdir(parents=True))
    monkeypatch.setattr(whole_round, "TURNS", 2)
    monkeypatch.setattr(whole_round.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(whole_round, "_here", lambda *_: here.pop())
    monkeypatch.setattr(whole_round, "_simulated", lambda *_: simulated.pop())
    monkeypatch.setattr(whole_round, "computing", lambda side_by_side: 1.1 if side_by_side else 2.0)
    result = whole_round.run(tmp_path)
    assert result["pure_computation_side_by_side_of_one_by_one"] == pytest.approx(0.55)
    assert result["rounds_alone"] == pytest.approx(2 * a_round)
    assert result["with_start_up"] == pytest.approx((rest + 2 * a_round) / 2)
    assert result["exchange_seconds_of_a_round"] == pytest.approx(0.3 - 0.2 / 2)
    assert result["exchange_alone"] == pytest.approx(2 * (0.3 - 0.2 / 2))
    assert list(result["promises"].values()) == kept
