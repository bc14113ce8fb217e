"""Cells trained side by side in processes of their own, the same bits as one after the other.

A worker trains one cell after another, so that its imports are paid once. Cores are dealt out: with W workers a cell of
the in-process engine has cores / W threads, and torch as many as the study says, never more than there are.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TextIO

import psutil

from fedsuper.errors import FedSuperError
from fedsuper.studies.cells.board import DONE, KEPT, Board
from fedsuper.studies.cells.cell import Cell
from fedsuper.studies.cells.worker import DONE as FINISHED
from fedsuper.studies.cells.worker import LINE

MEMORY_PER_WORKER = 2_000_000_000  # bytes that a worker of default size may need
PROGRAM = [sys.executable, "-m", "fedsuper.studies.cells.worker"]


def workers_for(cells: Sequence[Cell], asked: int | None) -> int:
    """How many at a time: as asked, else by cores and free memory; the simulator fills the cores with one cell."""
    if asked is not None and asked < 1:
        raise FedSuperError(f"--workers {asked}: at least 1 is needed")
    if not cells:
        return 1
    if asked is None:
        wide = max(cell.study.compute.torch_threads for cell in cells)
        by_memory = psutil.virtual_memory().available // MEMORY_PER_WORKER
        alone = any(cell.engine != "local" or cell.study.compute.device.startswith("cuda") for cell in cells)
        asked = 1 if alone else max(1, min((os.cpu_count() or 1) // wide, by_memory))
    return min(asked, len(cells))


def train_cells(cells: Sequence[Cell], workers: int | None = None, stream: TextIO | None = None) -> Iterator[Cell]:
    """Every cell in order, as soon as it and those before it are trained; what is there already is kept.

    The first failure ends all: finished cells stay, broken ones go on when the command is given again.
    """
    missing = [cell for cell in cells if not cell.finished]
    count = workers_for(missing, workers)
    if count == 1:
        for cell in cells:
            cell.train()
            yield cell
        return
    share = max(1, (os.cpu_count() or 1) // count)
    crew = _Crew([replace(cell, threads=min(cell.threads or share, share) if cell.engine == "local" else cell.threads)
                  for cell in missing], count)
    with Board([cell.name for cell in cells], stream) as board, crew:
        for cell in cells:
            if cell in missing:
                crew.wait_for(cell, board)
            else:
                board.say(cell.name, KEPT)
            yield cell


class _Crew:
    """The workers: each is a process and the thread that talks to it. What they say comes through one queue."""

    def __init__(self, cells: Sequence[Cell], count: int) -> None:
        self._waiting: queue.SimpleQueue[Cell] = queue.SimpleQueue()
        self._said: queue.SimpleQueue[tuple[str, str, str]] = queue.SimpleQueue()
        self._finished: set[str] = set()
        for cell in cells:
            self._waiting.put(cell)
        environment = {"OMP_NUM_THREADS": str(cells[0].study.compute.torch_threads)} | os.environ
        self._processes = [
            subprocess.Popen(PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
            for _ in range(count)
        ]

    def __enter__(self) -> None:
        for process in self._processes:
            threading.Thread(target=self._lead, args=(process,), daemon=True).start()

    def __exit__(self, *problem: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def wait_for(self, cell: Cell, board: Board) -> None:
        """Show what is said until this cell is finished."""
        while cell.name not in self._finished:
            name, kind, text = self._said.get()
            if kind == LINE:
                board.say(name, text)
            elif kind == FINISHED:
                self._finished.add(name)
                board.say(name, DONE)
            else:
                raise FedSuperError(f"{name}: {text}; finished cells are kept, give the command again to go on")

    def _lead(self, process: subprocess.Popen[str]) -> None:
        """Give one worker a cell at a time until none is left."""
        assert process.stdin is not None and process.stdout is not None
        while not self._waiting.empty():
            try:
                cell = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                process.stdin.write(json.dumps(cell.to_json()) + "\n")
                process.stdin.flush()
                kind = LINE
                while kind == LINE:
                    message = json.loads(process.stdout.readline())
                    kind = message["kind"]
                    self._said.put((cell.name, kind, message["text"]))
            except (OSError, ValueError):  # nothing more can be read from it or written to it
                self._said.put((cell.name, "died", "its process died (often for lack of memory; try fewer --workers)"))
                return
