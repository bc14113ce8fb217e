"""Cells trained side by side in processes of their own, the same bits as one after the other.

A worker trains one cell after another, the costliest that is left, so that all end at about the same time. Cores are
dealt out: with W workers a cell of the in-process engine has cores / W threads, and torch as many as the study says,
never more than there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import psutil

from fedsuper.errors import FedSuperError
from fedsuper.studies.cells.board import KEPT, Board
from fedsuper.studies.cells.cell import Cell
from fedsuper.studies.cells.crew import Crew
from fedsuper.studies.cells.order import costliest_first

MEMORY_PER_WORKER = 2_000_000_000  # bytes that a worker of default size may need


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
    """Every cell as soon as it is trained, in whatever order they end; first those that are there already.

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
    crew = Crew([replace(cell, threads=min(cell.threads or share, share) if cell.engine == "local" else cell.threads)
                 for cell in costliest_first(missing)], count)
    with crew, Board([cell.name for cell in cells], stream) as board:
        for cell in cells:
            if cell not in missing:
                board.say(cell.name, KEPT)
                yield cell
        named = {cell.name: cell for cell in missing}
        for _ in missing:
            yield named[crew.next_finished(board)]


def in_order(cells: Sequence[Cell], coming: Iterable[Cell]) -> Iterator[Cell]:
    """The cells in the order of `cells`, each as soon as it and those before it have come."""
    come: set[Path] = set()
    places = iter(cells)
    wanted = next(places, None)
    for cell in coming:
        come.add(cell.folder)
        while wanted is not None and wanted.folder in come:
            yield wanted
            wanted = next(places, None)
