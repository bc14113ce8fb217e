"""Work on every core at once, each core with images of its own from the first step to the last.

A core that reads, predicts and writes its own images hands nothing over. Threads that only read or only write would
have the nets' threads wait for the interpreter's lock and their pixels travel from one core's cache to another's: a
tenth of the processor time of a prediction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

from fedsuper.inference.passes import compute_threads

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Claims(Generic[Item]):
    """Groups of items that cores take one after the other; what belongs together goes to one core."""

    def __init__(self, groups: Sequence[Sequence[Item]]) -> None:
        self._groups = iter(groups)
        self._one_at_a_time = threading.Lock()
        self.left = sum(len(group) for group in groups)  # items that nobody has taken

    def __iter__(self) -> Iterator[Item]:
        """One core's items, until none is left."""
        while (group := self._take()) is not None:
            yield from group

    def stop(self) -> None:
        """Nobody gets another group."""
        with self._one_at_a_time:
            self._groups, self.left = iter(()), 0

    def _take(self) -> Sequence[Item] | None:
        with self._one_at_a_time:
            group = next(self._groups, None)
            self.left -= len(group or ())
            return group


def on_every_core(
    claims: Claims[Item],
    order: Sequence[int],
    workers: int,
    work: Callable[[Iterator[Item]], Iterator[tuple[int, Outcome]]],
) -> Generator[tuple[int, Outcome]]:
    """What became of the items numbered in `order`, in that order: each as soon as all before it are there.

    `work` gets what a core takes and gives numbers and outcomes, in any order. What it raises is raised here, once the
    other cores have come to the end of what they had taken.
    """
    told: SimpleQueue[tuple[int, Outcome] | BaseException] = SimpleQueue()
    pool = compute_threads(workers, "nets")

    def one_core() -> None:
        try:
            for pair in work(iter(claims)):
                told.put(pair)
        except BaseException as error:  # whatever it is, nobody may wait for this core's images
            told.put(error)

    try:
        for _ in range(workers):
            pool.submit(one_core)
        early: dict[int, Outcome] = {}
        for number in order:
            while number not in early:
                told_next = told.get()
                if isinstance(told_next, BaseException):
                    raise told_next
                early[told_next[0]] = told_next[1]
            yield number, early.pop(number)
    finally:
        claims.stop()
        pool.shutdown(wait=True)
