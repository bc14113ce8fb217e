"""Who trains a cell, and which comes first: no result depends on it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from fedsuper.config import Study
from fedsuper.config.reading import change_study, parse_study
from fedsuper.inference.supermodel_manifest import read_manifest
from fedsuper.studies.cells import crew, order
from fedsuper.studies.cells.cell import Cell
from fedsuper.studies.cells.side_by_side import in_order, train_cells
from fedsuper.studies.compare import Comparison, compare

# Notes the rows in the order they came; answers once two were given out, for one row a second later.
NOTING = """
import json, sys, time
from pathlib import Path
for line in sys.stdin:
    cell = json.loads(line)
    with open(sys.argv[1], "a") as file:
        file.write(cell["row"] + "\\n")
    while len(Path(sys.argv[1]).read_text().split()) < 2:
        time.sleep(0.01)
    time.sleep(1.0 if cell["row"] == sys.argv[2] else 0.0)
    print(json.dumps({"kind": "done", "text": ""}), flush=True)
"""
FORKING = """
import json, sys
from pathlib import Path
from fedsuper.config.reading import parse_study
from fedsuper.studies.cells import crew
from fedsuper.studies.compare import Comparison, compare

study, root, out, *methods = sys.argv[1:]
what = Comparison(parse_study(json.loads(study)), Path(root), methods, [0], Path(out), workers=2)
assert crew.may_fork(what.cells(methods))
crew.PROGRAM = ["false"]
print(json.dumps(compare(what)["methods"]))
"""
ALONE = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@pytest.fixture
def small(tiny_study: Study) -> Study:
    return change_study(tiny_study, ["rounds=1"])


def test_the_costliest_comes_first_and_equals_stay_as_they_were(tmp_path: Path) -> None:
    study = parse_study({"method": "fedsm", "rounds": 3})
    rows = ["local", "fedavg", "fedprox", "fedavg+rounds=9", "ditto", "fedsm", "fedavg+image_size=256",
            "fedavg+local_epochs=7", "fedavg+rounds=auto"]
    cells = Comparison(study, tmp_path, rows, [0, 1], tmp_path / "out").cells(rows)
    found = order.costliest_first(cells)
    assert [cell.row for cell in found if cell.seed == 0] == [
        "fedavg+rounds=auto", "fedavg+local_epochs=7", "fedavg+image_size=256", "fedavg+rounds=9", "fedsm", "ditto",
        "local", "fedavg", "fedprox"]
    assert [cell.seed for cell in found] == [0, 1] * len(rows) and {cell.folder for cell in found} == {
        cell.folder for cell in cells}


def test_every_method_has_a_cost() -> None:
    from fedsuper.methods import METHODS

    costs = {name: order.cost(parse_study({"method": name})) for name in METHODS}
    assert min(costs.values()) > 0 and costs["fedsm"] > costs["ditto"] > costs["fedavg"]


def test_cells_are_begun_by_cost_and_told_as_they_end(small: Study, tmp_path: Path, monkeypatch) -> None:
    """FedAvg is the cheapest, comes last to a worker, and ends before the one that takes its time."""
    rows = ["fedavg", "ditto", "fedsm"]
    cells = Comparison(small, tmp_path, rows, [0], tmp_path / "out").cells(rows)
    monkeypatch.setattr(crew, "PROGRAM", [sys.executable, "-c", NOTING, str(tmp_path / "noted"), "fedsm"])
    monkeypatch.setattr(crew, "may_fork", lambda cells: False)
    told = [cell.row for cell in train_cells(cells, 2, io.StringIO())]
    noted = (tmp_path / "noted").read_text().split()
    assert sorted(noted[:2]) == ["ditto", "fedsm"] and noted[2:] == ["fedavg"]
    assert told == ["ditto", "fedavg", "fedsm"]
    assert [cell.row for cell in in_order(cells, [cells[1], cells[2], cells[0]])] == rows


def test_forks_give_the_bits_and_the_table_of_one_worker(tiny_root: Path, small: Study, tmp_path: Path) -> None:
    one = Comparison(small, tiny_root, ["fedavg", "fedsm", "ditto"], [0], tmp_path / "one")
    words = [small.model_dump_json(exclude={"knobs"}), str(tiny_root), str(tmp_path / "two"), *one.methods]
    command = [sys.executable, "-c", FORKING, *words]
    done = subprocess.run(command, env=ALONE, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(json.dumps(compare(one)["methods"]))
    for cell in one.cells(one.methods):
        first, second = (read_manifest(folder / "supermodel")["files"]
                         for folder in (cell.folder, one.folder(cell.row, 0, tmp_path / "two")))
        assert first == second
    assert "fedsm, seed 0: done" in done.stderr


def test_a_process_with_threads_is_not_forked(tiny_root: Path, small: Study, tmp_path: Path, monkeypatch) -> None:
    cells = [Cell("fedavg", 0, small, tiny_root, tmp_path)]
    threads = tmp_path / "task"
    monkeypatch.setattr(crew, "THREADS", threads)
    assert not crew.may_fork(cells), "nobody can tell"
    (threads / "1").mkdir(parents=True)
    assert crew.may_fork(cells)
    assert not crew.may_fork([Cell("fedavg", 0, small, tiny_root, tmp_path, engine="sim")])
    (threads / "2").mkdir()
    assert not crew.may_fork(cells)
    monkeypatch.undo()
    stop = threading.Event()
    one_more = threading.Thread(target=stop.wait)
    one_more.start()
    assert not crew.may_fork(cells)
    stop.set()
    one_more.join()


ORPHANS = """
import os, sys, time
from fedsuper.studies.cells.crew import Fork
first = Fork([], 1)
second = Fork([first], 1)
print(first._pid, second._pid, flush=True)
time.sleep(60)
"""


def test_a_killed_command_leaves_no_fork_behind() -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHANS], env=ALONE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        forks = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while any(fork.is_running() and fork.status() != psutil.STATUS_ZOMBIE for fork in forks):
        assert time.monotonic() < deadline
        time.sleep(0.05)
