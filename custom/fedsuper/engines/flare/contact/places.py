"""Places to compute at for the processes of one machine: one for each core.

A machine that computes for more sites than it has cores only switches between them: all end late, the largest last and
alone, and each finds its caches filled with another's numbers. A site that has its task therefore waits for a place,
and leaves it before it sends its answer; meanwhile the next computes. Places are locks on files, which the kernel opens
when a process dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

LOOK = 0.003  # seconds
PATIENCE = 60.0  # seconds after which a site computes without a place: one that hangs does not stop the others


@contextlib.contextmanager
def place(folder: Path | None, count: int | None, patience: float = PATIENCE) -> Iterator[bool]:
    """Within it one of `count` places of `folder` is taken, and whether it is; without a folder nobody waits."""
    if folder is None or not count or not folder.is_dir():
        yield False
        return
    deadline = time.monotonic() + patience
    with contextlib.ExitStack() as opened:
        files = [opened.enter_context(open(folder / f"place-{number}", "ab")) for number in range(count)]
        while not (taken := any(_taken(file) for file in files)) and time.monotonic() < deadline:
            time.sleep(LOOK)
        yield taken


def _taken(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
