"""What travels is counted by site and direction, written down, and bounded where the study says so."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from paper_sites import SITES, PaperSites, federate, paper_study

from fedsuper.errors import FedSuperError
from fedsuper.evaluation.run_files.names import ROUNDS
from fedsuper.evaluation.run_files.tables import SiteCost, read_rounds
from fedsuper.federation.checkpoints import Resume
from fedsuper.federation.ledger.round_costs import RoundCost, add_round
from fedsuper.federation.ledger.traffic import Traffic, size_of
from fedsuper.federation.messages import Message, SiteFailure


def message(values: int) -> Message:
    return Message({"global": {"weight": torch.zeros(values)}}, {"round": 1})


def test_a_message_weighs_its_tensors_and_its_text() -> None:
    assert size_of(message(100)) == 400 + len('{"round": 1}')
    assert size_of(Message({}, {}, carried=7)) == 7, "what carried it knows better"


def test_both_directions_are_counted_and_a_failure_weighs_nothing() -> None:
    traffic = Traffic()
    traffic.sent("a", message(10))
    before = traffic.copy()
    traffic.sent("a", message(10))
    traffic.came("a", message(3))
    traffic.came("b", SiteFailure("no power"))
    traffic.came("b", Message([], None))  # type: ignore[arg-type]  # whatever a site sends
    assert traffic.since(before).to_json() == {"a": {"down": size_of(message(10)), "up": size_of(message(3))}}
    assert Traffic.from_json(traffic.to_json()) == traffic


def test_the_table_of_rounds_reads_back_and_a_round_run_again_counts_once(tmp_path: Path) -> None:
    assert read_rounds(tmp_path) == {}
    add_round(tmp_path, 1, RoundCost(Traffic({"a": 5}, {"a": 6}), 0.5))
    add_round(tmp_path, 2, RoundCost(Traffic({"a": 7}, {}), 1.5))
    add_round(tmp_path, 2, RoundCost(Traffic({"a": 8}, {"a": 9}), 2.5))
    assert read_rounds(tmp_path) == {1: {"a": SiteCost(5, 6, 0.5)}, 2: {"a": SiteCost(8, 9, 2.5)}}


def test_half_a_line_that_a_killed_process_left_is_written_over(tmp_path: Path) -> None:
    for number in (1, 2):
        add_round(tmp_path, number, RoundCost(Traffic({"a": 5}, {"a": 6}), 0.5))
    whole = (tmp_path / ROUNDS).read_bytes()
    (tmp_path / ROUNDS).write_bytes(whole[:-7])
    add_round(tmp_path, 2, RoundCost(Traffic({"a": 5}, {"a": 6}), 0.5))
    assert (tmp_path / ROUNDS).read_bytes() == whole


def test_a_run_stops_before_it_goes_over_its_budget_and_goes_on_with_a_larger_one(tmp_path: Path) -> None:
    unbound, _ = federate(PaperSites(paper_study("fedavg", rounds=3)), tmp_path / "unbound")
    whole = unbound.manifest["traffic"]
    assert set(whole) == set(SITES)
    one = sum(whole[SITES[0]].values()) / 1e6
    tight = {"federation": {"traffic_budget": 0.6 * one}}
    with pytest.raises(FedSuperError, match="would bring its traffic to .* MB, and federation.traffic_budget is"):
        federate(PaperSites(paper_study("fedavg", rounds=3, **tight)), tmp_path / "bound")
    wide = {"federation": {"traffic_budget": 3 * one}}
    resumed, _ = federate(PaperSites(paper_study("fedavg", rounds=3, **wide)), tmp_path / "bound", resume=Resume())
    assert all(resumed.manifest["traffic"][site]["down"] >= whole[site]["down"] for site in SITES)
