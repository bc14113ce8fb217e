"""Signs of life: who is silent while others are heard, and who went without a goodbye."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fedsuper.engines.flare.contact import hearts as hearts_module
from fedsuper.engines.flare.contact.hearts import BEAT, GOODBYE, STARTING, Hearts


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that goes on when it is told to, and when somebody sleeps."""
    now = SimpleNamespace(value=1000.0)

    def sleep(seconds: float) -> None:
        now.value += seconds

    monkeypatch.setattr(hearts_module, "time", SimpleNamespace(monotonic=lambda: now.value, sleep=sleep))
    return now


def hear(hearts: Hearts, site: str, topic: str = BEAT) -> None:
    hearts.hear(topic, {}, SimpleNamespace(get_peer_context=lambda: SimpleNamespace(get_identity_name=lambda: site)))


def listening(*sites: str) -> Hearts:
    hearts = Hearts()
    hearts.listening = True
    for site in sites:
        hear(hearts, site)
    return hearts


def test_a_site_is_silent_while_others_are_heard(clock: SimpleNamespace) -> None:
    hearts = listening("a", "b")
    clock.value += 30
    assert hearts.silent(["a", "b"], 5) == [], "where nobody is heard it is the server's own line"
    hear(hearts, "a")
    assert hearts.silent(["a", "b"], 5) == ["b"] and hearts.silence("b") == 30
    hear(hearts, "b")
    assert hearts.silent(["a", "b"], 5) == []


def test_a_first_sign_may_take_its_time(clock: SimpleNamespace) -> None:
    hearts = listening("a")
    clock.value += STARTING - 1
    hear(hearts, "a")
    assert hearts.silence("slow") == 0
    clock.value += 2
    hear(hearts, "a")
    assert hearts.silence("slow") > STARTING


def test_who_died_did_not_say_goodbye(clock: SimpleNamespace) -> None:
    hearts = listening("a", "b", "gone before")
    clock.value += 60
    hear(hearts, "a")
    hear(hearts, "b")
    hear(hearts, "a", GOODBYE)
    assert hearts.without_goodbye(["a", "b", "gone before"], 5) == ["b"]
    hear(hearts, "b", GOODBYE)
    assert hearts.without_goodbye(["a", "b"], 5) == [], "aborted by an admin"


def test_the_simulator_has_no_hearts(clock: SimpleNamespace) -> None:
    hearts = Hearts()
    clock.value += 1000
    assert hearts.silence("a") == 0 and hearts.without_goodbye(["a"], 5) == []
