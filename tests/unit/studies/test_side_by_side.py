"""Cells side by side are cells one after the other: the same bits, the same table, and a failure has a name."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from fedsuper.config import Study
from fedsuper.config.reading import change_study
from fedsuper.errors import FedSuperError
from fedsuper.inference.supermodel_manifest import read_manifest
from fedsuper.studies.cells import crew, side_by_side, worker
from fedsuper.studies.cells.board import Board
from fedsuper.studies.cells.cell import Cell
from fedsuper.studies.compare import Comparison, compare


@pytest.fixture
def small(tiny_study: Study) -> Study:
    return change_study(tiny_study, ["rounds=1"])


def digests(folder: Path) -> dict[str, str]:
    return {name: file["sha256"] for name, file in read_manifest(folder)["files"].items()}


@pytest.mark.slow
def test_the_bits_and_the_table_are_those_of_one_worker(tiny_root: Path, small: Study, tmp_path: Path, capsys) -> None:
    one = Comparison(small, tiny_root, ["local", "fedavg", "fedprox"], [0], tmp_path / "one")
    two = replace(one, out=tmp_path / "two", workers=2)
    Cell("local", 0, one.cells(["local"])[0].study, tiny_root, two.folder("local", 0)).train()  # from an earlier day
    alone, together = compare(one), compare(two)
    said = capsys.readouterr().err
    assert "local, seed 0: there already" in said and "fedprox, seed 0: fedprox: round 1/1" in said
    assert alone["methods"] == together["methods"]
    for first, second in zip(one.cells(one.methods), two.cells(two.methods), strict=True):
        assert digests(first.folder / "supermodel") == digests(second.folder / "supermodel")


def test_a_broken_cell_ends_all_with_its_name(tiny_root: Path, small: Study, tmp_path: Path, monkeypatch) -> None:
    cells = [Cell("fedavg", seed, small, tiny_root, tmp_path / str(seed)) for seed in (0, 1)]
    monkeypatch.setattr(crew, "PROGRAM", ["false"])
    monkeypatch.setattr(crew, "may_fork", lambda cells: False)
    with pytest.raises(FedSuperError, match=r"fedavg, seed 0: its process died .*--workers"):
        list(side_by_side.train_cells(cells, 2, io.StringIO()))


def test_a_worker_tells_of_a_problem_and_goes_on(tiny_root: Path, small: Study, tmp_path: Path) -> None:
    cell = Cell("fedavg", 0, small, tmp_path / "nothing", tmp_path / "run")
    assert Cell.from_json(json.loads(json.dumps(cell.to_json()))) == cell
    out = io.StringIO()
    worker.work([json.dumps(cell.to_json()), "no cell"], out)
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert first["kind"] == second["kind"] == worker.FAILED and "nothing" in first["text"]


def test_cores_are_never_oversubscribed(tiny_root: Path, small: Study, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(side_by_side, "MEMORY_PER_WORKER", 1)
    wide = change_study(small, ["compute.torch_threads=3"])
    cells = [Cell("fedavg", seed, wide, tiny_root, tmp_path) for seed in range(6)]
    assert side_by_side.workers_for(cells, None) == 2
    assert side_by_side.workers_for([replace(cell, engine="sim") for cell in cells], None) == 1
    assert side_by_side.workers_for(cells, 9) == 6 and side_by_side.workers_for([], None) == 1
    monkeypatch.setattr(side_by_side, "MEMORY_PER_WORKER", 1 << 60)
    assert side_by_side.workers_for(cells, None) == 1
    with pytest.raises(FedSuperError, match="at least 1"):
        side_by_side.workers_for(cells, 0)


def test_a_terminal_shows_one_table() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    with Board(["fedavg, seed 0", "fedsm, seed 0"], screen) as board:
        board.say("fedsm, seed 0", "round 1/3")
    assert "fedavg, seed 0" in screen.getvalue() and "waiting" in screen.getvalue() and "round 1/3" in screen.getvalue()
