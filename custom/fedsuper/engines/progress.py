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
        self.started = time.monotonic()
        self.first_round: int | None = None
        self.live = self.stream.isatty()

    def note(self, text: str) -> None:
        """A line of its own."""
        self._line(text)

    def _line(self, text: str) -> None:
        end = "\033[K\n" if self.live else "\n"
        self.stream.write(("\r" if self.live else "") + f"{self.title}: {text}{end}")
        self.stream.flush()

    def round(self, number: int, summary: str) -> None:
        """A finished round."""
        now = time.monotonic()
        if self.first_round is None:
            self.first_round = number - 1
        done = number - self.first_round
        text = f"round {number}" + (f"/{self.total}" if self.total else "") + f"  {summary}"
        if self.total and done:
            left = (now - self.started) / done * (self.total - number)
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
