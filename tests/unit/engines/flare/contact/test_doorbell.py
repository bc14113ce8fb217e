"""Whoever waits for work hears of its own at once, and a ring between looking and waiting is not missed."""

from __future__ import annotations

import threading
import time

from fedsuper.engines.flare.contact.doorbell import Doorbell


def test_a_ring_before_the_wait_counts_and_an_old_one_does_not() -> None:
    bell = Doorbell()
    heard = bell.rings("a")
    bell.ring("a")
    assert bell.wait("a", heard, 60)
    assert not bell.wait("a", bell.rings("a"), 0)


def test_a_site_hears_its_own_bell_alone() -> None:
    bell = Doorbell()
    bell.ring("a")
    assert bell.wait("a", 0, 0) and not bell.wait("b", 0, 0)


def test_everybody_wakes_long_before_their_time() -> None:
    bell = Doorbell()
    woken: list[bool] = []
    crowd = [threading.Thread(target=lambda site: woken.append(bell.wait(site, 0, 60)), args=[site]) for site in "abc"]
    started = time.monotonic()
    for one in crowd:
        one.start()
    bell.ring()
    for one in crowd:
        one.join()
    assert woken == [True] * 3 and time.monotonic() - started < 30
