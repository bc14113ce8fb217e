"""The workers that train cells side by side: forked from this process where that is safe, new interpreters elsewhere.

A fork is ready at once, a new interpreter after seconds of imports that this process has behind it. Only a process that
has a single thread, numpy's and torch's included, may be forked: a lock that another thread holds would stay locked for
ever in the child. One whose torch can compute on a GPU is not either.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, Protocol, TextIO

import torch

from fedsuper.errors import FedSuperError
from fedsuper.studies.cells.board import DONE, Board
from fedsuper.studies.cells.cell import Cell
from fedsuper.studies.cells.worker import DONE as FINISHED
from fedsuper.studies.cells.worker import LINE, serve

PROGRAM = [sys.executable, "-m", "fedsuper.studies.cells.worker"]
THREADS = Path("/proc/self/task")  # an entry for every thread of this process, on Linux


class Worker(Protocol):
    """A process that reads cells from `asked` and tells what comes of them through `told`."""

    asked: TextIO
    told: TextIO

    def end(self) -> None:
        """Kill it and wait for its end."""


class Interpreter:
    """A worker in a new interpreter."""

    def __init__(self, torch_threads: int) -> None:
        environment = {"OMP_NUM_THREADS": str(torch_threads)} | os.environ
        self._process = subprocess.Popen(PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         env=environment)
        assert self._process.stdin is not None and self._process.stdout is not None
        self.asked: TextIO = self._process.stdin  # type: ignore[assignment]
        self.told: TextIO = self._process.stdout  # type: ignore[assignment]

    def end(self) -> None:
        """Kill it and wait for its end."""
        self._process.kill()
        self._process.wait()


class Fork:
    """A worker forked from this process; it closes what belongs to `others`, which else would not see our end."""

    def __init__(self, others: Sequence[Fork], torch_threads: int) -> None:
        (coming, asking), (telling, going) = os.pipe(), os.pipe()
        self.asked: TextIO = open(asking, "w", encoding="utf-8")
        self.told: TextIO = open(telling, encoding="utf-8")
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            _live(coming, going, [*others, self], torch_threads)
        os.close(coming)
        os.close(going)

    def end(self) -> None:
        """Kill it and wait for its end."""
        os.kill(self._pid, signal.SIGKILL)  # nobody else waits for it, so the number is still its own
        os.waitpid(self._pid, 0)


def _live(coming: int, going: int, ours: Sequence[Fork], torch_threads: int) -> NoReturn:
    """The life of a fork: it never returns into what this process was about."""
    try:
        os.environ.setdefault("OMP_NUM_THREADS", str(torch_threads))  # for processes of its own
        torch.set_num_threads(torch_threads)
        for stream in [stream for worker in ours for stream in (worker.asked, worker.told)]:
            stream.close()
        serve(open(coming, encoding="utf-8"), open(going, "w", encoding="utf-8"))
    finally:
        os._exit(1)


def may_fork(cells: Sequence[Cell]) -> bool:
    """Whether workers for these cells may be forks of this process."""
    on_cpu = torch.version.cuda is None and torch.version.hip is None
    return on_cpu and all(cell.engine == "local" for cell in cells) and THREADS.is_dir() \
        and len(list(THREADS.iterdir())) == 1


class Crew:
    """The workers: each is a process and the thread that talks to it. What they say comes through one queue.

    Cells are begun in the order given.
    """

    def __init__(self, cells: Sequence[Cell], count: int) -> None:
        self._waiting: queue.SimpleQueue[Cell] = queue.SimpleQueue()
        self._said: queue.SimpleQueue[tuple[str, str, str]] = queue.SimpleQueue()
        for cell in cells:
            self._waiting.put(cell)
        threads = cells[0].study.compute.torch_threads
        self._workers: Sequence[Worker]
        if may_fork(cells):
            forks: list[Fork] = []
            for _ in range(count):
                forks.append(Fork(forks, threads))
            self._workers = forks
        else:
            self._workers = [Interpreter(threads) for _ in range(count)]

    def __enter__(self) -> Crew:
        for worker in self._workers:
            threading.Thread(target=self._lead, args=(worker,), daemon=True).start()
        return self

    def __exit__(self, *problem: object) -> None:
        for worker in self._workers:
            worker.end()

    def next_finished(self, board: Board) -> str:
        """Show what is said until a cell is finished; its name."""
        while True:
            name, kind, text = self._said.get()
            if kind == LINE:
                board.say(name, text)
            elif kind == FINISHED:
                board.say(name, DONE)
                return name
            else:
                raise FedSuperError(f"{name}: {text}; finished cells are kept, give the command again to go on")

    def _lead(self, worker: Worker) -> None:
        """Give one worker a cell at a time until none is left."""
        while not self._waiting.empty():
            try:
                cell = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                worker.asked.write(json.dumps(cell.to_json()) + "\n")
                worker.asked.flush()
                kind = LINE
                while kind == LINE:
                    message = json.loads(worker.told.readline())
                    kind = message["kind"]
                    self._said.put((cell.name, kind, message["text"]))
            except (OSError, ValueError):  # nothing more can be read from it or written to it
                self._said.put((cell.name, "died", "its process died (often for lack of memory; try fewer --workers)"))
                return
