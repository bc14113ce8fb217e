"""Answers that are read as they come give the same round, bit for bit, as answers that are read when all have come."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from paper_sites import LIAR, PaperSites, federate, paper_study

from fedsuper.core.state import Models, laid_down, room_for_models
from fedsuper.federation.door import arrivals
from fedsuper.federation.door.arrivals import Reading
from fedsuper.federation.messages import TRAIN, Message, SiteFailure, unheard
from fedsuper.methods.protocol.server import Update

Round = tuple[Any, Any, dict[str, Models], dict[str, Message]]


@pytest.fixture(scope="module")
def before_the_last() -> Round:
    """A study before its last round: its entrance, the method, what went down and what honestly came up."""
    sites = PaperSites(paper_study("fedsm"))
    kept: list[Any] = []

    def keep(message: Message) -> Message:
        assert sites.federation is not None
        kept.append(copy.deepcopy(sites.federation.server))
        return message

    sites.lie, sites.task, sites.at = keep, TRAIN, 1
    with tempfile.TemporaryDirectory() as folder:
        federate(sites, Path(folder) / "run")
    federation = sites.federation
    assert federation is not None and federation.entrance is not None
    federation.server = federation.entrance.server = server = kept[0]
    acting = federation.method.during(server.phase)
    sent = {site: acting.downlink(server, site) for site in server.sites}
    asked = {site: federation._request(server, site).message(sent[site]) for site in server.sites}
    return federation.entrance, acting, sent, {site: sites.answer(TRAIN, site, asked[site]) for site in server.sites}


class Line:
    """An exchange that tells of the answers in the order given."""

    sites: list[str] = []
    heard = staticmethod(unheard)


def judged(case: Round, replies: Mapping[str, Message | SiteFailure], order: list[str]) -> tuple[Any, ...]:
    """What a round makes of answers that are heard in this order: updates, norms, and who is refused why."""
    entrance, acting, sent, _ = case
    entrance = copy.copy(entrance)
    entrance.server = copy.deepcopy(entrance.server)
    refused: list[tuple[str, str]] = []
    entrance.refused = lambda site, why: refused.append((site, why))
    line = Line()
    with entrance.expecting(sent, line):
        for site in order:
            line.heard(site, replies[site])
    assert line.heard is unheard
    return entrance.updates(acting, replies, sent), entrance.server.values["norms"], refused


def same(one: dict[str, Update], other: dict[str, Update]) -> bool:
    return list(one) == list(other) and all(
        torch.equal(tensor, other[site].models[role][name]) and one[site].metrics == other[site].metrics
        for site, update in one.items() for role, state in update.models.items() for name, tensor in state.items())


def test_the_order_of_arrival_changes_nothing(before_the_last: Round) -> None:
    honest = before_the_last[3]
    late = judged(before_the_last, honest, [])
    for order in (list(honest), list(reversed(honest))):
        early = judged(before_the_last, honest, order)
        assert same(early[0], late[0]) and early[1:] == late[1:]


def test_an_answer_is_read_once(before_the_last: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, asked = before_the_last[3], []
    check = arrivals.check_models
    monkeypatch.setattr(arrivals, "check_models", lambda *args: (asked.append(args[2]), check(*args))[1])
    judged(before_the_last, honest, list(honest))
    assert sorted(asked) == sorted(honest)


@pytest.mark.parametrize("spoil", [
    lambda message: SiteFailure("disk full"),
    lambda message: Message(message.models, message.info | {"round": 99}),
    lambda message: Message(message.models, [1]),
    lambda message: Message([], {}),
    lambda message: Message({role: {name: tensor * float("nan") for name, tensor in state.items()}
                             for role, state in message.models.items()}, message.info),
    lambda message: Message({role: {name: tensor * 1e9 for name, tensor in state.items()}
                             for role, state in message.models.items()}, message.info),
])
def test_what_is_refused_is_refused_in_the_same_words_when_its_turn_comes(before_the_last: Round, spoil: Any) -> None:
    replies = {**before_the_last[3], LIAR: spoil(copy.deepcopy(before_the_last[3][LIAR]))}
    late, early = (judged(before_the_last, replies, order) for order in ([], list(reversed(replies))))
    assert LIAR not in early[0] and [site for site, _ in early[2]] == [LIAR]
    assert same(early[0], late[0]) and early[1:] == late[1:]


def test_another_answer_in_its_place_is_read_anew(before_the_last: Round) -> None:
    """What was found of one message is never believed of another."""
    entrance, _, sent, honest = before_the_last
    reading = entrance._begin(sent)
    reading.look(LIAR, honest[LIAR])
    with pytest.raises(Exception, match="round"):
        reading.read(LIAR, Message(honest[LIAR].models, honest[LIAR].info | {"round": 99}))


def test_models_rest_where_they_would_in_the_servers_own_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    made: list[torch.Tensor] = []

    def blank(shape: Any, kind: torch.dtype) -> torch.Tensor:
        made.append(torch.empty(tuple(shape), dtype=kind))
        return made[-1]

    def restored(models: Models, *_: Any) -> Models:
        return {role: {name: laid_down(tensor) for name, tensor in state.items()} for role, state in models.items()}

    monkeypatch.setattr(arrivals, "restored", restored)
    monkeypatch.setattr(arrivals, "check_models", lambda models, *_: models)
    monkeypatch.setattr(arrivals, "opened", lambda *_: None)
    with room_for_models(blank):
        reading = Reading({"a": {}}, {"a": {}}, "fp16", lambda site: None)  # type: ignore[arg-type, return-value]
    answer = Message({"global": {"w": torch.ones(3)}}, {})
    carrier = threading.Thread(target=reading.look, args=("a", answer))
    carrier.start()
    carrier.join()
    assert reading.read("a", answer).models["global"]["w"] is made[0] and len(made) == 1
