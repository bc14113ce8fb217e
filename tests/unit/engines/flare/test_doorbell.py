"""Whoever waits for work hears of it at once, and a ring between looking and waiting is not missed."""

from __future__ import annotations

import threading
import time

from fedsuper.engines.flare.contact.doorbell import Doorbell


def test_a_ring_before_the_wait_counts_and_an_old_one_does_not() -> None:
    bell = Doorbell()
    heard = bell.rings
    bell.ring()
    assert bell.wait(heard, 60)
    assert not bell.wait(bell.rings, 0)


def test_everybody_wakes_long_before_their_time() -> None:
    bell = Doorbell()
    woken: list[bool] = []
    crowd = [threading.Thread(target=lambda: woken.append(bell.wait(0, 60))) for _ in range(5)]
    started = time.monotonic()
    for one in crowd:
        one.start()
    bell.ring()
    for one in crowd:
        one.join()
    assert woken == [True] * 5 and time.monotonic() - started < 30
