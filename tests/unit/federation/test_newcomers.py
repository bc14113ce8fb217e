"""Sites that join a running study at a round's end: the last label, the same bits however it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from attended import unbroken
from paper_sites import SITES, Answer, PaperSites, bits, federate, paper_study

from fedsuper.config.reading import parse_study
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import TRAIN, Message
from fedsuper.inference.artifact import load_super_model
from fedsuper.methods import METHODS, create_method
from fedsuper.train.checkpoint import digest

LATE, FIRST = SITES[0], list(SITES[1:])
WELCOME: dict[str, Any] = {"federation": {"newcomers": "welcome"}}


class LateSites(PaperSites):
    """The first site by name comes when two rounds are over; `first` is what it was first asked to train with."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.present = list(FIRST)
        self.first: Message | None = None

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Answer]:
        replies = super().__call__(task, messages, timeout)
        if task == TRAIN:
            self.first = self.first or messages.get(LATE)
            if messages[FIRST[0]].info["round"] == 1:
                self.present = list(SITES)
        return replies


def test_a_newcomer_gets_the_last_label_and_begins_with_the_global_model(tmp_path: Path) -> None:
    sites = LateSites(paper_study("fedsm", rounds=4, **WELCOME))
    super_model, notes = federate(sites, tmp_path)
    assert super_model.sites == [*FIRST, LATE] and super_model.manifest["joined"] == {LATE: 3}
    assert f"{LATE}: joins the study in round 3" in notes and notes.count("3/3 sites") == 2 == notes.count("4/4 sites")
    assert [set(entry["sites"]) for entry in super_model.manifest["history"]] == [set(FIRST)] * 2 + [set(SITES)] * 3
    assert all(entry["missing"] == [] for entry in super_model.manifest["history"])
    assert sites.first is not None and sites.first.info["label"] == 3
    sent = sites.first.models
    assert digest(sent["personal"]) == digest(sent["global"])
    assert LATE in super_model.personal and super_model.selector is not None
    widths = {len(tensor) for name, tensor in super_model.selector.items() if name in _heads(sent["selector"])}
    assert widths == {4}


def _heads(state: Mapping[str, torch.Tensor]) -> list[str]:
    found = [name for name, tensor in state.items() if tensor.dim() and len(tensor) == 4]
    assert found
    return found


@pytest.mark.parametrize("ended", [2, 3])
def test_a_study_that_was_joined_is_resumed_with_the_same_bits(ended: int, tmp_path: Path) -> None:
    """The run ends in the round before the newcomer joins, or in the one after."""
    whole, _ = federate(LateSites(paper_study("fedsm", rounds=5, **WELCOME)), tmp_path / "whole")
    federate(LateSites(paper_study("fedsm", rounds=ended, **WELCOME)), tmp_path / "broken")
    resumed, _ = federate(PaperSites(paper_study("fedsm", rounds=5, **WELCOME)), tmp_path / "broken", resume=True)
    assert bits(resumed) == bits(whole) and resumed.sites == whole.sites == [*FIRST, LATE]
    assert resumed.manifest["joined"] == {LATE: 3}


def test_without_a_welcome_a_stranger_is_named_once(tmp_path: Path) -> None:
    super_model, notes = federate(LateSites(paper_study("fedsm", rounds=4)), tmp_path)
    assert super_model.sites == FIRST and "joined" not in super_model.manifest
    assert notes.count(f"{LATE}: is there but no part of this study; federation.newcomers: welcome takes it in") == 1


CLOSED: list[dict[str, Any]] = [
    {"method": "scaffold"}, {"method": "fedsm-extra"}, {"method": "centralized"},
    {"method": "fedsm", "selector": {"optimizer": "local"}}, {"method": "fedsm", "fedsm": {"personal": "auto"}},
]


@pytest.mark.parametrize("closed", CLOSED, ids=str)
def test_a_method_that_cannot_be_joined_says_so_before_anybody_trains(closed: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(FedSuperError, match=r"^federation.newcomers: welcome does not go with this study: .*leave it"):
        federate(PaperSites(paper_study(**closed, **WELCOME)), tmp_path)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_other_method_takes_a_newcomer_in(name: str, tmp_path: Path) -> None:
    study = paper_study(name, rounds=4, **WELCOME)
    if create_method(study).no_newcomers() is None:
        super_model, notes = federate(LateSites(study), tmp_path)
        assert super_model.sites == [*FIRST, LATE] and notes.count("4/4 sites") == 2


def test_a_selector_that_travels_in_16_bits_grows_too(tmp_path: Path) -> None:
    study = paper_study("fedsm", rounds=4, wire="bf16", selector={"optimizer": "synced-moments"}, **WELCOME)
    assert federate(LateSites(study), tmp_path)[0].sites == [*FIRST, LATE]


def test_sites_that_train_take_a_newcomer_in(tiny_root: Path, tmp_path: Path) -> None:
    study = parse_study({"method": "fedsm", "rounds": 3, "image_size": 32, "model": {"channels": [4, 8]}, **WELCOME})
    roots = dict.fromkeys(("site-1", "site-2", "site-3"), tiny_root)
    unbroken(study, roots, [[], [], [], []], tmp_path, joined={"site-1": 2})
    super_model = load_super_model(tmp_path / "supermodel")
    assert super_model.sites == ["site-2", "site-3", "site-1"] and set(super_model.personal) == set(roots)
