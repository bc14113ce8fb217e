"""A federation's processes as one family: started together, ended together, none left behind.

NVFlare's processes open sessions and groups of their own and outlive a parent that is killed, so neither the process
tree nor the group finds them all. A mark in the environment is inherited by every descendant and finds every one. Of a
fork the system shows the environment of the process before it; a fork holds an open file that bears the mark instead.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import psutil

import fedsuper

MARK = "FEDSUPER_FAMILY"
SOON = 0.02  # seconds in which the kernel ends a process that was killed


class ProcessFamily:
    """The processes that carry one mark."""

    def __init__(self, mark: str | None = None) -> None:
        self.mark = mark or uuid.uuid4().hex

    @contextlib.contextmanager
    def kept(self, *folders: Path) -> Iterator[None]:
        """Let the family live for as long as the block runs; when it ends, or this process is killed, end them all.

        Against the latter a guard stands by: its standard input is a pipe that closes with this process. `folders` go
        with the family.
        """
        command = [sys.executable, "-m", "fedsuper.engines.flare.launch.processes", *map(str, folders)]
        guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, env=self.environment({}))
        try:
            yield
        finally:
            self.end()
            guard.communicate()
            _remove(folders)

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """The environment to start a member with; it imports the same FedSuper as this process."""
        package_root = str(Path(fedsuper.__file__).parents[1])
        search = os.pathsep.join(part for part in (package_root, os.environ.get("PYTHONPATH")) if part)
        return {**os.environ, **extra, "PYTHONPATH": search, MARK: self.mark}

    def members(self) -> list[psutil.Process]:
        """The members alive now, this process not counted."""
        return [process for process in psutil.process_iter() if process.pid != os.getpid() and self._owns(process)]

    def end(self) -> None:
        """Kill every member by its id, again and again until none is left: a member may start another meanwhile.

        One that has ended and is not buried yet has no environment, and counts no more: its burial may take seconds.
        """
        while members := self.members():
            for process in members:
                try:
                    process.kill()
                except psutil.Error:  # gone already
                    continue
            time.sleep(SOON)

    def _owns(self, process: psutil.Process) -> bool:
        try:
            return bool(process.environ().get(MARK) == self.mark) or self._holds(process.pid)
        except (psutil.Error, OSError):  # gone, a zombie, or another user's
            return False

    def _holds(self, pid: int) -> bool:
        """Whether it has a file open whose name bears the mark (Linux, where alone there are forks)."""
        files = Path(f"/proc/{pid}/fd")
        for file in files.iterdir() if files.is_dir() else ():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile: says nothing of the others
                if self.mark in os.readlink(file):
                    return True
        return False


def guard() -> None:
    """Wait for the end of standard input, then end the family this process belongs to, and remove its folders."""
    while os.read(0, 1):
        continue
    ProcessFamily(os.environ[MARK]).end()
    _remove(sys.argv[1:])


def _remove(folders: Iterable[Path | str]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    guard()
