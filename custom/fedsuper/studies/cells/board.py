"""What is shown while cells train side by side: a live table on a terminal, lines with the cell's name elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from fedsuper.display import console

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

WAITING, KEPT, DONE = "waiting", "there already", "done"


class Board:
    """A row a cell: its name and the last thing it said. rich is imported on terminals only."""

    def __init__(self, cells: Sequence[str], stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.said = dict.fromkeys(cells, WAITING)
        self._live: Live | None = None

    def __enter__(self) -> Board:
        if self.stream.isatty():
            from rich.live import Live

            self._live = Live(self._table(), console=console(self.stream), refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, cell: str, text: str) -> None:
        """A cell's new last word."""
        self.said[cell] = text
        if self._live is not None:
            self._live.update(self._table())
        else:
            self.stream.write(f"{cell}: {text}\n")
            self.stream.flush()

    def _table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        for cell, text in self.said.items():
            table.add_row(Text(cell), Text(text, overflow="ellipsis", no_wrap=True))
        return table
