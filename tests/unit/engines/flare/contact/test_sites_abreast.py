"""Sites of one machine: as many at a time as it serves, the slowest first; nobody waits behind the dead or for ever."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fake_controller import FakeController, messages

from fedsuper.engines.flare.contact import exchange as exchange_module
from fedsuper.engines.flare.contact.exchange import FlareExchange
from fedsuper.engines.flare.settings import GONE
from fedsuper.engines.flare.wire import pack, unpack
from fedsuper.federation.messages import TRAIN, Message, SiteFailure


class Machine(FakeController):
    """Sites that work until the server waits: then the first of those that can answers."""

    def __init__(self, sites: str, monkeypatch: pytest.MonkeyPatch, silent: str = "") -> None:
        super().__init__(None, sites=tuple(sites))
        self.silent = silent
        self.working: dict[str, object] = {}
        self.crowd = 0
        waiting = SimpleNamespace(set=lambda: None, clear=lambda: None, wait=lambda seconds: self.one_is_done())
        monkeypatch.setattr(exchange_module, "threading", SimpleNamespace(Event=lambda: waiting))

    def get_num_standing_tasks(self) -> int:
        return len(self.working)

    def send_model(self, task, model, targets, timeout, callback) -> None:
        self.sent.append((task, targets[0], unpack(model)))
        self.working[targets[0]] = callback
        self.crowd = max(self.crowd, len(self.working))

    def one_is_done(self) -> bool:
        for site in (site for site in self.working if site not in self.silent):
            answer = pack(Message({}, {"from": site}))
            answer.meta["client_name"] = site
            self.working.pop(site)(answer)
            return True
        return False


def test_no_more_are_asked_than_the_machine_serves_and_one(monkeypatch) -> None:
    """The next is asked when one has answered, and all are asked in the end."""
    controller = Machine("abcdef", monkeypatch)
    replies = FlareExchange(controller, places=2)(TRAIN, messages(*"abcdef"), 1000)
    assert controller.crowd == 3 and [site for _, site, _ in controller.sent] == list("abcdef")
    assert [reply.info["from"] for reply in replies.values()] == list("abcdef")


def test_without_places_all_are_asked_at_once(monkeypatch) -> None:
    controller = Machine("abcdef", monkeypatch)
    FlareExchange(controller)(TRAIN, messages(*"abcdef"), 1000)
    assert controller.crowd == 6


def test_sites_that_died_hold_no_place(tmp_path, monkeypatch) -> None:
    gone = tmp_path / "gone"
    monkeypatch.setenv(GONE, str(gone))

    class Dying(Machine):
        def one_is_done(self) -> bool:
            gone.write_text("a\nb\n")
            return super().one_is_done()

    replies = FlareExchange(Dying("abc", monkeypatch, silent="ab"), places=1)(TRAIN, messages(*"abc"), 1000)
    assert isinstance(replies["c"], Message)
    assert replies["a"] == replies["b"] == SiteFailure("it is not connected")


def test_sites_that_hang_keep_the_others_waiting_for_half_the_time_at_most(monkeypatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(exchange_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    class Hanging(Machine):
        def one_is_done(self) -> bool:
            clock[0] += 1
            if clock[0] >= 10:
                self.working.clear()  # NVFlare gives up on them
            return super().one_is_done()

    controller = Hanging("abc", monkeypatch, silent="ab")
    replies = FlareExchange(controller, places=1)(TRAIN, messages(*"abc"), 10)
    assert isinstance(replies["c"], Message) and [site for _, site, _ in controller.sent] == list("abc")
    assert clock[0] == 10 and replies["a"].late and replies["b"].late


def test_the_slowest_is_asked_first_even_if_it_did_not_answer_last(monkeypatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(exchange_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    seconds = {"a": 1.0, "b": 9.0, "c": 2.0}

    class OneByOne(FakeController):
        def send_model(self, task, model, targets, timeout, callback) -> None:
            self.sent.append((task, targets[0], unpack(model)))
            clock[0] += seconds[targets[0]]
            answer = pack(Message())
            answer.meta["client_name"] = targets[0]
            callback(answer)

    controller = OneByOne(None, sites=tuple("abc"))
    exchange = FlareExchange(controller, places=1)
    for number, expected in enumerate(("abc", "bca", "bca", "bca")):
        controller.sent.clear()
        seconds["a"] = 20.0 if number == 2 else 1.0  # once it waited for the others, which makes it no slow site
        exchange(TRAIN, messages(*"abc"), 1000)
        assert [site for _, site, _ in controller.sent] == list(expected)
