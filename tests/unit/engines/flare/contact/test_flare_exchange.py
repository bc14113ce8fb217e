"""The server's exchange: one task per site, and a reason for every site that does not answer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fake_controller import FakeController, messages
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.app_event_type import AppEventType

from fedsuper.engines.flare.contact import exchange as exchange_module
from fedsuper.engines.flare.contact.doorbell import WORK
from fedsuper.engines.flare.contact.exchange import AbortedError, FlareExchange
from fedsuper.engines.flare.settings import GONE
from fedsuper.engines.flare.wire import ENVELOPE, pack, pack_failure, unpack
from fedsuper.federation.messages import DESCRIBE, TRAIN, Message, SiteFailure


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
