"""Cores that take groups of items: everything once, in order, and nothing hangs."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from fedsuper.inference.predict.every_core import Claims, on_every_core

GROUPS = [[0, 1, 2], [3], [4, 5], [6], [7]]
ORDER = [number for group in GROUPS for number in group]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_item_is_done_once_and_told_in_order(workers: int) -> None:
    takers: dict[int, int] = {}

    def work(mine: Iterator[int]) -> Iterator[tuple[int, int]]:
        done = []
        for number in mine:
            takers[number] = threading.get_ident()
            done.append((number, number**2))
        yield from reversed(done)

    claims = Claims(GROUPS)
    assert list(on_every_core(claims, ORDER, workers, work)) == [(number, number**2) for number in ORDER]
    assert claims.left == 0 and sorted(takers) == ORDER
    assert all(len({takers[number] for number in group}) == 1 for group in GROUPS), "a group goes to one core"


def test_what_a_core_raises_is_raised_and_nobody_gets_more() -> None:
    def work(mine: Iterator[int]) -> Iterator[tuple[int, None]]:
        for number in mine:
            if number == 3:
                raise KeyboardInterrupt
            yield number, None

    claims = Claims(GROUPS)
    with pytest.raises(KeyboardInterrupt):
        list(on_every_core(claims, ORDER, 2, work))
    assert claims.left == 0 and not list(claims)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("nets")]


def test_whoever_stops_listening_stops_the_cores() -> None:
    done: list[int] = []

    def work(mine: Iterator[int]) -> Iterator[tuple[int, None]]:
        for number in mine:
            done.append(number)
            yield number, None
            if number == ORDER[0]:
                listened.wait(10)

    listened = threading.Event()
    results = on_every_core(Claims([[number] for number in range(1000)]), range(1000), 1, work)
    assert next(results) == (0, None)
    threading.Timer(0.05, listened.set).start()
    results.close()
    assert len(done) == 1
