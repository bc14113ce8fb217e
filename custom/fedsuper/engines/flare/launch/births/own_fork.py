"""A program of this package as a fork of the process that wants it, in place of a new interpreter.

Whoever starts a simulation has imported what its server imports, more than a second's work. A fork has it already.

A fork has one thread, whatever the process had, so it is made only where Python runs no other, and from a thread of its
own: the pool of threads with which torch computes belongs to the thread that made it, and in a fork of that one the
first operation on two cores would wait for ever. A graphics driver does not survive a fork; where there is one, and
where the system is not Linux, a new interpreter it is.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import BinaryIO, NoReturn

import torch

RESET = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)


def is_safe() -> bool:
    """Whether this process may be forked to compute."""
    able = sys.platform == "linux" and hasattr(os, "pidfd_open") and hasattr(os, "memfd_create")
    return able and threading.active_count() == 1 and not torch.cuda.is_available()


class OwnFork:
    """The fork as this process sees it: the part of `subprocess.Popen` that is needed here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._door = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """None while it lives."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                os.close(self._door)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Until it has ended; the error of `subprocess` where that takes longer."""
        if self.poll() is None:
            select.select([self._door], [], [], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code


def forked(program: Callable[[], int], environment: Mapping[str, str], output: BinaryIO, mark: str) -> OwnFork:
    """`program` in a fork of this process, in a session of its own, with this environment and `output` as its terminal.

    The fork and all its descendants hold open a file in memory that bears `mark`: their environment as the system shows
    it is still this process's.
    """
    born: list[int] = []

    def fork() -> None:
        pid = os.fork()
        if pid == 0:
            _live(program, environment, output.fileno(), held)
        born.append(pid)

    held = os.memfd_create(mark)
    try:
        maker = threading.Thread(target=fork)
        maker.start()
        maker.join()
    finally:
        os.close(held)
    if not born:
        raise OSError("the system lets no process be forked")
    return OwnFork(born[0])


def _live(program: Callable[[], int], environment: Mapping[str, str], output: int, held: int) -> NoReturn:
    """The program and nothing of what this process would do after it."""
    code = 1
    try:
        os.setsid()
        threading.current_thread().name = "MainThread"  # by which NVFlare knows it
        for number in RESET:
            signal.signal(number, signal.SIG_DFL)
        _let_go(output, held)
        sys.stdin, sys.stdout, sys.stderr = (open(number, how, buffering=1, encoding="utf-8", closefd=False)
                                             for number, how in enumerate("rww"))
        logging.getLogger().handlers.clear()  # those of the process before
        os.environ.clear()
        os.environ.update(environment)
        code = program()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _let_go(output: int, held: int) -> None:
    """Nothing to read, `output` to write to, `held`, and no other open file: whoever waits for the end of a pipe that
    the process before has open would wait for this one too. Their numbers stay taken, by what is nothing: an object
    that closes its file later closes no new one.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (1, 2, held, nothing):
            with contextlib.suppress(OSError):  # the listing's own
                os.fstat(int(name))
                os.dup2(nothing, int(name))
