"""The server's exchange: one task per site, and a reason for every site that does not answer."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
import torch
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.app_event_type import AppEventType

from fedsuper.engines.flare.contact import exchange as exchange_module
from fedsuper.engines.flare.contact.doorbell import WORK
from fedsuper.engines.flare.contact.exchange import AbortedError, FlareExchange
from fedsuper.engines.flare.settings import GONE
from fedsuper.engines.flare.wire import ENVELOPE, pack, pack_failure, unpack
from fedsuper.federation.messages import DESCRIBE, TRAIN, Message, SiteFailure


class FakeController:
    """Answers each task at once through `answer`; a site for which that is None stays silent."""

    def __init__(self, answer, sites=("a", "b"), gone=()) -> None:
        self.answer = answer
        self.sent: list[tuple[str, str, Message | SiteFailure]] = []
        self.timeouts: list[int] = []
        self.events: list[tuple[str, int]] = []
        self.gone = set(gone)
        self.standing = 0
        self.abort_signal = SimpleNamespace(triggered=False)
        self.engine = SimpleNamespace(get_clients=lambda: [SimpleNamespace(name=site) for site in sites],
                                      new_context=self._context)

    @contextlib.contextmanager
    def _context(self):
        props: dict[str, object] = {}
        yield SimpleNamespace(set_prop=lambda key, value, **_: props.update({key: value}), props=props)

    def fire_event(self, event: str, context) -> None:
        self.events.append((event, next(iter(context.props.values()))))

    def get_client_disconnect_time(self, site: str) -> float | None:
        return 1.0 if site in self.gone else None

    def get_num_standing_tasks(self) -> int:
        return self.standing

    def cancel_all_tasks(self) -> None:
        self.standing = 0

    def send_model(self, task: str, model: FLModel, targets: list[str], timeout: int, callback) -> None:
        assert isinstance(timeout, int)
        self.timeouts.append(timeout)
        (site,) = targets
        self.sent.append((task, site, unpack(model)))
        reply = self.answer(site)
        if reply is not None:
            reply.meta["client_name"] = site
            callback(reply)


def messages(*sites: str) -> dict[str, Message]:
    return {site: Message({"global": {"w": torch.full((2,), float(i))}}, {"round": 4}) for i, site in enumerate(sites)}


def test_each_site_gets_its_own_models_and_answers_in_the_order_asked() -> None:
    controller = FakeController(lambda site: pack(Message({}, {"from": site})))
    replies = FlareExchange(controller)(TRAIN, messages("b", "a"), 7.5)
    assert [(task, site, message.models["global"]["w"][0].item()) for task, site, message in controller.sent] == [
        (TRAIN, "b", 0.0), (TRAIN, "a", 1.0)]
    assert list(replies) == ["b", "a"] and replies["a"] == Message({}, {"from": "a"})
    assert controller.timeouts == [8, 8]


def test_widgets_hear_of_rounds_only() -> None:
    controller = FakeController(lambda site: pack(Message()))
    exchange = FlareExchange(controller)
    exchange(DESCRIBE, {"a": Message()}, 1)
    assert controller.events == []
    exchange(TRAIN, messages("a"), 1)
    assert controller.events == [(AppEventType.ROUND_STARTED, 4), (AppEventType.ROUND_DONE, 4)]


def test_a_site_that_is_gone_is_not_waited_for() -> None:
    controller = FakeController(lambda site: pack(Message()), gone=["b"])
    exchange = FlareExchange(controller)
    assert exchange.sites == ["a"]
    replies = exchange(TRAIN, messages("a", "b", "never-seen"), 10)
    assert [site for _, site, _ in controller.sent] == ["a"]
    assert replies["b"] == replies["never-seen"] == SiteFailure("it is not connected")


def test_a_site_whose_process_died_meanwhile_ends_the_waiting(tmp_path, monkeypatch) -> None:
    """The simulator's keeper names it in a file; NVFlare itself would let the server wait until the deadline."""
    gone = tmp_path / "gone"
    monkeypatch.setenv(GONE, str(gone))

    def answer(site: str):
        if site == "b":
            gone.write_text("b\n")
            return None
        return pack(Message())

    controller = FakeController(answer)
    controller.standing = 1
    replies = FlareExchange(controller)(TRAIN, messages("a", "b"), 1000)
    assert replies["a"] == Message() and replies["b"] == SiteFailure("it is not connected")
    assert controller.standing == 0


def test_the_last_answer_ends_the_waiting_and_tasks_ring() -> None:
    """NVFlare clears finished tasks away a moment later; a round does not wait for that."""
    heard = WORK.rings("a"), WORK.rings("b")
    controller = FakeController(lambda site: pack(Message()))
    controller.standing = 2
    replies = FlareExchange(controller)(TRAIN, messages("a", "b"), 1000)
    assert replies == {"a": Message(), "b": Message()} and controller.standing == 2
    assert (WORK.rings("a"), WORK.rings("b")) == (heard[0] + 1, heard[1] + 1)


def test_who_answered_last_is_asked_first_and_answers_keep_their_order(monkeypatch) -> None:
    waiting: dict[str, object] = {}
    clock = [0.0]
    monkeypatch.setattr(exchange_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    class Slow(FakeController):
        """Sites answer when all were asked, `order` first to last."""

        order = ("c", "a", "b")

        def send_model(self, task, model, targets, timeout, callback) -> None:
            self.sent.append((task, targets[0], unpack(model)))
            waiting[targets[0]] = callback
            if len(waiting) == 3:
                for site in self.order:
                    answer = pack(Message({}, {"from": site}))
                    answer.meta["client_name"] = site
                    clock[0] += 1
                    waiting.pop(site)(answer)

    controller = Slow(None, sites=("a", "b", "c"))
    exchange = FlareExchange(controller)
    for asked in (["a", "b", "c"], ["b", "a", "c"]):
        controller.sent.clear()
        replies = exchange(TRAIN, messages("a", "b", "c"), 10)
        assert [site for _, site, _ in controller.sent] == asked
        assert {site: reply.info["from"] for site, reply in replies.items()} == {"a": "a", "b": "b", "c": "c"}
        assert list(replies) == ["a", "b", "c"]


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
    for expected in ("abc", "bca"):
        controller.sent.clear()
        exchange(TRAIN, messages(*"abc"), 1000)
        assert [site for _, site, _ in controller.sent] == list(expected)


def test_every_answer_is_heard_before_the_waiting_ends() -> None:
    controller = FakeController(lambda site: pack(Message({}, {"from": site})))
    exchange = FlareExchange(controller)
    heard: dict[str, Message | SiteFailure] = {}
    exchange.heard = heard.__setitem__
    replies = exchange(TRAIN, messages("a", "b"), 1000)
    assert heard == replies and all(heard[site] is replies[site] for site in heard)


def test_silence_has_a_reason() -> None:
    silent = FakeController(lambda site: None)
    assert FlareExchange(silent)(TRAIN, messages("a"), 1000)["a"] == SiteFailure(
        "its answer was refused on the way; see the site's log")
    assert FlareExchange(silent)(TRAIN, messages("a"), 0)["a"] == SiteFailure("no answer within 0 s")


def test_a_refusal_keeps_the_sites_words_and_nonsense_is_a_failure() -> None:
    replies = {"a": pack_failure(SiteFailure("disk full")), "b": FLModel(params={}, meta={})}
    got = FlareExchange(FakeController(replies.get))(TRAIN, messages("a", "b"), 10)
    assert got["a"] == SiteFailure("disk full")
    assert isinstance(got["b"], SiteFailure) and "cannot be read" in got["b"].reason


@pytest.mark.parametrize("envelope", ['{"roles": 3, "info": {}}', "[1]", "5", "null", "{",
                                      '{"roles": [[1]], "info": {}}',
                                      "[" * 100_000, '{"failure": ' + '"' + "x" * 5_000_000 + '"}'])
def test_an_envelope_that_makes_no_sense_is_one_sites_failure(envelope: str) -> None:
    replies = {"a": FLModel(params={}, meta={ENVELOPE: envelope}), "b": pack(Message({}, {"fine": 1}))}
    got = FlareExchange(FakeController(replies.get))(TRAIN, messages("a", "b"), 10)
    assert isinstance(got["a"], SiteFailure) and len(got["a"].reason) < 300
    assert got["b"] == Message({}, {"fine": 1})


def test_an_aborted_job_ends_the_waiting() -> None:
    controller = FakeController(lambda site: None)
    controller.standing, controller.abort_signal.triggered = 1, True
    with pytest.raises(AbortedError):
        FlareExchange(controller)(TRAIN, messages("a"), 10)
