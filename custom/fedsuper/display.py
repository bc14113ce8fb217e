"""The one way to show work: a live bar on a terminal, plain lines in a file or a pipe, a panel at the end."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as LiveBar

Show = Callable[[int, int], None]  # cases done, cases in all

TENTHS = 10
WORTH_TELLING = 20  # below this many cases a log needs no lines about how far the work is


class Display:
    """Lines that stay and, on a terminal, one live line below them. rich is imported on terminals only."""

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self.title = title
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self._bar: LiveBar | None = None
        self._told = 0  # tenths of the work

    def line(self, text: str) -> None:
        """A line that stays."""
        if self._bar is not None:
            self._bar.console.print(f"{self.title}: {text}", markup=False, highlight=False, soft_wrap=True)
        else:
            self.stream.write(f"{self.title}: {text}\n")
            self.stream.flush()

    def bar(self, done: int, total: int | None, text: str = "") -> None:
        """Move the live line; off a terminal nothing is shown."""
        if not self.live:
            return
        if self._bar is None:
            self._bar = self._open(done, total, text)
        self._bar.update(self._bar.task_ids[0], completed=done, total=total, text=text)

    def count(self, done: int, total: int, unit: str) -> None:
        """So many done: the live line on a terminal; elsewhere a line every tenth of a long work."""
        self.bar(done, total, unit)
        if not self.live and total >= WORTH_TELLING and done * TENTHS // total > self._told:
            self._told = done * TENTHS // total
            self.line(f"{done}/{total} {unit}")

    def close(self) -> None:
        """Take the live line away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
            _OPEN.remove(self)

    def _open(self, done: int, total: int | None, text: str) -> LiveBar:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as LiveBar

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
        )
        bar = LiveBar(*columns, console=console(self.stream), transient=True)
        bar.add_task(self.title, completed=done, total=total, text=text)
        bar.start()
        _OPEN.append(self)
        return bar


_OPEN: list[Display] = []  # with a live line on the terminal now


@atexit.register
def close_all() -> None:
    """Take every live line away: whatever ends a command, its last words stand alone and the cursor comes back."""
    for display in list(_OPEN):
        display.close()


def console(stream: TextIO) -> Console:
    """rich's console on a stream."""
    from rich.console import Console

    return Console(file=stream)


@contextmanager
def counted(title: str, unit: str, stream: TextIO | None = None) -> Iterator[Show]:
    """Yields `show(done, total)`: a live bar on a terminal; elsewhere a line every tenth of a long work."""
    display = Display(title, stream)
    try:
        yield lambda done, total: display.count(done, total, unit)
    finally:
        display.close()


def closing_panel(title: str, facts: Mapping[str, str], stream: TextIO | None = None) -> None:
    """What came out and what to do next: a panel on a terminal, `name: value` lines elsewhere."""
    stream = stream or sys.stderr
    lines = [f"{name}: {value}" for name, value in facts.items()]
    if not stream.isatty():
        stream.write("".join(f"{line}\n" for line in lines))
        stream.flush()
        return
    from rich.panel import Panel
    from rich.text import Text

    console(stream).print(Panel.fit(Text("\n".join(lines)), title=title, title_align="left"))
