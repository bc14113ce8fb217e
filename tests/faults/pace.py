"""A slow hospital, so that a study lasts for as long as a play needs it to, on a machine of any speed.

The training process of one site is stopped whenever a task comes for it and goes on a moment later, or when the play
says so. Nothing in the product knows of it; a stopped process computes the same bits.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from fedsuper.federation.site_process import ANSWERED, ASKED

LOOK = 0.02
BEAT = 1.5  # seconds that a task of a slow site takes at least; a little more than the command waits between two looks


class Pace:
    """Slows a site down; `states` are the folders where every site keeps its state."""

    def __init__(self, states: dict[str, Path], site: str) -> None:
        self.states = states
        self.site = site
        self._go = threading.Event()
        self._go.set()
        self._over = threading.Event()
        self._stopping = threading.Lock()
        self._seen: dict[Path, int] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No round ends while the block runs, but for the one that the site may have answered already."""
        self._go.clear()
        try:
            yield
        finally:
            self._go.set()

    def move(self, site: str) -> None:
        """From now on another site is the slow one; the one before has gone on."""
        with self._stopping:
            self.site = site

    def stop(self) -> None:
        """From now on as fast as the machine."""
        self._go.set()
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(LOOK):
            with self._stopping:
                for asked in asked_of(self.states[self.site]):
                    with contextlib.suppress(OSError, psutil.Error):  # the site's process may end meanwhile
                        self._slow_down(asked)

    def _slow_down(self, asked: Path) -> None:
        when = asked.stat().st_mtime_ns
        if self._seen.get(asked) == when:
            return
        self._seen[asked] = when
        process = trainer_at(asked)
        process.suspend()
        try:
            self._over.wait(BEAT)
            self._go.wait()
        finally:
            process.resume()


def asked_of(state: Path) -> list[Path]:
    """The tasks that wait at a site whose state lies under a folder: one for each of its training processes."""
    return list(state.glob(f"**/asked-*/{ASKED}"))


def trainer_at(asked: Path) -> psutil.Process:
    """The process for which a task waits."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(asked.parent) in process.cmdline():
                return process
    raise psutil.NoSuchProcess(0)


def in_mid_task(state: Path, seconds: float = 120.0) -> psutil.Process:
    """A site's training process, stopped in the middle of a task: it has been asked and has not answered."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for asked in asked_of(state):
            with contextlib.suppress(OSError, psutil.Error):
                process = trainer_at(asked)
                process.suspend()
                if _unanswered(asked):
                    return process
                process.resume()
        time.sleep(LOOK)
    raise AssertionError(f"no task came to {state} within {seconds:.0f} s")


def _unanswered(asked: Path) -> bool:
    answered = asked.with_name(ANSWERED)
    return not answered.exists() or answered.stat().st_mtime_ns < asked.stat().st_mtime_ns
