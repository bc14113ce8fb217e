"""How far a study is: rounds done, sites answered, seconds left."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from fedsuper.display import Display
from fedsuper.federation.ledger.round_costs import RoundCost, add_round


class Progress:
    """A line a round and, on a terminal, a live bar below. Used as a context, it takes the bar away at the end.

    `run` is the folder whose table of rounds it keeps, if any.
    """

    def __init__(self, title: str, total: int | None, stream: TextIO | None = None, run: Path | None = None) -> None:
        self.title = title
        self.total = total
        self.run = run
        self.display = Display(title, stream)
        self.first: tuple[int, float] | None = None  # the first round that was shown, and when

    def __enter__(self) -> Progress:
        self.display.bar(0, self.total, "starting")
        return self

    def __exit__(self, *problem: object) -> None:
        self.display.close()

    def note(self, text: str) -> None:
        """A line of its own."""
        self.display.line(text)

    def attendance(self, present: Sequence[str], absent: Mapping[str, str]) -> None:
        """Who answered the round's task, and why the others did not; on a terminal warnings tell it already."""

    def round(self, number: int, summary: str, cost: RoundCost | None = None) -> None:
        """A finished round. Seconds left are told from the second one on: the first carries the start-up."""
        if cost is not None:
            summary = f"{summary}  {cost.summary()}"
            if self.run is not None:
                add_round(self.run, number, cost)
        now = time.monotonic()
        left = ""
        if self.first is None:
            self.first = number, now
        elif self.total:
            known, since = self.first
            left = f"  {(now - since) / max(1, number - known) * max(0, self.total - number):.0f} s left"
        self.display.line(f"round {number}" + (f"/{self.total}" if self.total else "") + f"  {summary}{left}")
        self.display.bar(number, self.total, f"rounds{left}")


class Silent(Progress):
    """For tests and libraries."""

    def __init__(self) -> None:
        super().__init__("", None)

    def __enter__(self) -> Progress:
        return self

    def note(self, text: str) -> None:
        return

    def round(self, number: int, summary: str, cost: RoundCost | None = None) -> None:
        return
