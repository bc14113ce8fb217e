"""A process that trains cells: one JSON line in for each, JSON lines out for what it would show on a terminal.

It lives as long as what it reads from is open: whoever started it may be killed, and nothing is left behind.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterable
from typing import TextIO

from fedsuper.errors import FedSuperError
from fedsuper.studies.cells.cell import Cell

LINE, DONE, FAILED = "line", "done", "failed"


class Told(io.TextIOBase):
    """A stream whose lines become messages."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.rest = ""

    def write(self, text: str) -> int:
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            tell(self.out, LINE, line)
        return len(text)


def tell(out: TextIO, kind: str, text: str = "") -> None:
    """One message."""
    out.write(json.dumps({"kind": kind, "text": text}) + "\n")
    out.flush()


def work(lines: Iterable[str], out: TextIO) -> None:
    """Train every cell that is named; a problem is told, and the next cell may come."""
    for line in lines:
        try:
            Cell.from_json(json.loads(line)).train()
            tell(out, DONE)
        except FedSuperError as problem:
            tell(out, FAILED, str(problem))
        except Exception as error:
            tell(out, FAILED, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")


def serve(asked: TextIO, out: TextIO) -> None:
    """Train what is asked for, for ever; it is read in a thread, so that its end is seen while a cell is trained."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends us
    waiting: queue.Queue[str] = queue.Queue()
    sys.stderr = Told(out)

    def read() -> None:
        for line in asked:
            waiting.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    work((waiting.get() for _ in itertools.count()), out)


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
