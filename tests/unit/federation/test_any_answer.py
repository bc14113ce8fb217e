"""Thousands of broken answers to every method: none gets past the door as an error, and no model is ever not finite."""

from __future__ import annotations

import copy
import functools
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paper_sites import LIAR, PaperSites, federate, paper_study

from fedsuper.core.state import Models
from fedsuper.federation.door.admission import admit
from fedsuper.federation.messages import FINISH, HANDOVER, SETTLE, TRAIN, Message, SiteFailure
from fedsuper.methods import METHODS
from fedsuper.methods.protocol.server import Server

FEDERATED = [name for name in METHODS if name != "centralized"]
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.binary(max_size=5),
    st.lists(st.floats(), max_size=3), st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
    st.sampled_from([10**18, -(10**18), 10**400, "8", "\x1b[2J", "x" * 5000, object(), [[[[]]]], {1: 2}, 1e308, -0.0]),
)
TENSORS = st.sampled_from([
    lambda t: t * float("nan"), lambda t: t * float("inf"), lambda t: t * 1e30, lambda t: t * 100, lambda t: -t,
    lambda t: t.double(), lambda t: t.half(), lambda t: t.long(), lambda t: t[None], lambda t: t.reshape(-1)[:0],
    lambda t: t.tolist(), lambda t: None, lambda t: t.to("meta"), lambda t: t + 0j, lambda t: torch.full_like(t, 3),
    lambda t: t.to_sparse() if t.dim() else t, lambda t: t.numpy(), lambda t: t.reshape(-1).expand(2, t.numel()),
])


def places(node: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into a tree of dicts and lists."""
    found = [way] if way else []
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return found + [place for key, child in items for place in places(child, (*way, key))]


@st.composite
def broken(draw: st.DrawFn, honest: Message) -> Message | SiteFailure:
    """The answer with one to three things changed, dropped or added."""
    message = copy.deepcopy(honest)
    for _ in range(draw(st.integers(1, 3))):
        what = draw(st.sampled_from(["value", "value", "drop", "add", "tensor", "role", "role", "whole"]))
        if what == "whole":
            return draw(st.sampled_from([Message(), Message({}, {}), SiteFailure(""), Message([], [])]))  # type: ignore
        if what in ("value", "drop") and isinstance(message.info, dict) and places(message.info):
            *way, last = draw(st.sampled_from(places(message.info)))
            node: Any = functools.reduce(lambda tree, key: tree[key], way, message.info)
            if what == "value":
                node[last] = copy.deepcopy(draw(JUNK))  # the list it is drawn from must stay as it is
            else:
                del node[last]
        elif what == "add":
            message.info[draw(st.text(max_size=5))] = copy.deepcopy(draw(JUNK))
        elif what == "role":
            name = draw(st.sampled_from(["global", "personal", "selector", "bank", "x", "", "a/b"]))
            message.models[name] = copy.deepcopy(draw(JUNK))
        elif message.models:
            state = message.models[draw(st.sampled_from(sorted(message.models)))]
            if isinstance(state, dict) and state:
                name = draw(st.sampled_from(sorted(state)))
                tensor = state[name]  # what was made sparse, complex or empty of values before is broken enough
                if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.device.type == "cpu" \
                        and tensor.layout is torch.strided:
                    state[name] = draw(TENSORS)(tensor)
    return message


@functools.cache
def rehearsed(method: str) -> tuple[PaperSites, Server, dict[str, Models], dict[str, Message]]:
    """A study before its last round: the server as it was then, what went down and what honestly came up."""
    sites = PaperSites(paper_study(method))
    kept: list[Any] = []

    def keep(message: Message) -> Message:
        assert sites.federation is not None and sites.federation.server is not None
        kept.append(copy.deepcopy(sites.federation.server))
        return message

    sites.lie, sites.task, sites.at = keep, TRAIN, 1
    with tempfile.TemporaryDirectory() as folder:
        federate(sites, Path(folder) / "run")
    federation, server = sites.federation, kept[0]
    assert federation is not None and federation.entrance is not None
    federation.server = federation.entrance.server = server
    federation.entrance.refused = lambda site, reason: None
    acting = federation.method.during(server.phase)
    sent = {site: acting.downlink(server, site) for site in server.sites}
    asked = {site: federation._request(server, site).message(sent[site]) for site in server.sites}
    return sites, server, sent, {site: sites.answer(TRAIN, site, asked[site]) for site in server.sites}


@pytest.mark.parametrize("method", FEDERATED)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_answer_to_a_round_raises_or_poisons(method: str, data: st.DataObject) -> None:
    sites, server, sent, honest = rehearsed(method)
    federation = sites.federation
    assert federation is not None and federation.entrance is not None
    acting = federation.method.during(server.phase)
    for _ in range(4):
        replies: dict[str, Message | SiteFailure] = {**honest, LIAR: data.draw(broken(honest[LIAR]))}
        updates = federation.entrance.updates(acting, replies, sent)
        assert set(updates) >= set(honest) - {LIAR}, "an honest site pays for a lie"
        for state in federation.entrance.aggregate(acting, updates).values():
            assert all(bool(torch.isfinite(t).all()) for t in state.values() if t.is_floating_point())


@pytest.mark.parametrize("task", [FINISH, HANDOVER, SETTLE])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_answer_after_the_last_round_raises(task: str, data: st.DataObject) -> None:
    sites, server, _, _ = rehearsed("ditto" if task == FINISH else "fedsm")
    federation = sites.federation
    assert federation is not None and federation.entrance is not None
    entrance, experts = federation.entrance, frozenset(["global", *server.sites])
    honest = sites.answer(task, LIAR, federation._request(server, LIAR).message({}))
    read = entrance.finished if task == FINISH else functools.partial(entrance.settled, task, lambda _: experts)
    refused: list[str] = []
    assert admit({LIAR: honest}, read, lambda site, reason: refused.append(reason)) and not refused
    for _ in range(5):
        told = admit({LIAR: data.draw(broken(honest))}, read, lambda site, reason: refused.append(reason))
        if told and task == HANDOVER:
            reply, _ = told[LIAR]
            assert federation.method.settle({LIAR: reply.calibration}) is not None
    assert all(reason.isprintable() for reason in refused)
