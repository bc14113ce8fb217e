"""Site processes that are born warm: forked from one process that has imported what every site needs.

The simulator starts a new interpreter for every site, and with fewer threads than sites for every task; each would
spend two seconds of processor time on imports before its first word. The nursery is forked while the process has no
threads yet and holds nothing but imported modules, and forks itself for each site.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import NoReturn

import psutil

GONE = 1  # the exit code of a process whose parent is another


class Birth:
    """A site's process as whoever asked for it sees it; the part of `subprocess.Popen` that the simulator uses."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        try:
            self._process: psutil.Process | None = psutil.Process(pid)
        except psutil.NoSuchProcess:
            self._process = None

    def poll(self) -> int | None:
        """None while it lives."""
        if self.returncode is None and (self._process is None or not self._process.is_running()):
            self.returncode = GONE
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended."""
        if self._process is not None:
            try:
                self._process.wait(timeout)
            except psutil.TimeoutExpired:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0) from None
        self.returncode = GONE
        return GONE

    def terminate(self) -> None:
        """Ask it to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._process.send_signal(number)


class Nursery:
    """The door to the warm process: `born` runs `life(arguments)` in a new fork of it.

    Made before this process starts threads; ends when its last holder does. `warm` is what it does before the first
    birth, while its maker goes on.
    """

    def __init__(self, life: Callable[[Sequence[str]], None], warm: Callable[[], None] | None = None) -> None:
        self._door, inside = Pipe()
        self._lock = threading.Lock()
        if os.fork() == 0:
            self._door.close()
            _tend(inside, life, warm)
        inside.close()

    def born(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Birth:
        """A new process with these command line arguments and this environment."""
        with self._lock:
            self._door.send((list(arguments), dict(environment)))
            return Birth(self._door.recv())


def _tend(door: Connection, life: Callable[[Sequence[str]], None], warm: Callable[[], None] | None) -> NoReturn:
    """Fork for everyone who asks; children are not waited for, the kernel buries them."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if warm is not None:
        warm()
    while True:
        try:
            arguments, environment = door.recv()
        except (EOFError, OSError):
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            door.close()
            _live(life, arguments, environment)
        door.send(pid)


def _live(life: Callable[[Sequence[str]], None], arguments: list[str], environment: dict[str, str]) -> NoReturn:
    """One life, in a session of its own as NVFlare would give it."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.environ.clear()
        os.environ.update(environment)
        sys.path += [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path not in sys.path]
        life(arguments)
        code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
