"""Long work shows progress: a live line on a terminal, plain log lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Rounds done, sites answered, seconds left."""

    def __init__(self, title: str, total: int | None, stream: TextIO | None = None) -> None:
        self.title = title
        self.total = total
        self.stream = stream or sys.stderr
        self.first: tuple[int, float] | None = None  # the first round that was shown, and when
        self.live = self.stream.isatty()

    def note(self, text: str) -> None:
        """A line of its own."""
        self._line(text)

    def _line(self, text: str) -> None:
        end = "\033[K\n" if self.live else "\n"
        self.stream.write(("\r" if self.live else "") + f"{self.title}: {text}{end}")
        self.stream.flush()

    def round(self, number: int, summary: str) -> None:
        """A finished round. Seconds left are told from the second one on: the first carries the start-up."""
        now = time.monotonic()
        text = f"round {number}" + (f"/{self.total}" if self.total else "") + f"  {summary}"
        if self.first is None:
            self.first = number, now
        elif self.total:
            known, since = self.first
            left = (now - since) / max(1, number - known) * max(0, self.total - number)
            text += f"  {left:.0f} s left"
        if self.live:
            self.stream.write(f"\r{self.title}: {text}\033[K")
            if number == self.total:
                self.stream.write("\n")
            self.stream.flush()
        else:
            self._line(text)


class Silent(Progress):
    """For tests and libraries."""

    def __init__(self) -> None:
        super().__init__("", None)

    def note(self, text: str) -> None:
        return

    def round(self, number: int, summary: str) -> None:
        return
