"""A comparison of four methods with two workers against one, and what two cores of this machine can do at most.

One worker trains one cell after another with one thread: one core, however many there are. Two workers train two cells
at a time. The ceiling is measured in the same run, between the two: the same steps of a net, in two processes one
after the other and side by side. Two virtual cores that are threads of one physical core cannot halve anything, and
then the ratio says more about the machine than about us; so both are promised, and both are told. All are run in turn,
several times, and the least of each counts: a shared machine is slower in one minute than in the next, never too fast.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import time
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch

from fedsuper.bench.epoch_cost import bare_loop, site_with
from fedsuper.config.reading import parse_study
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.studies.compare import Comparison, compare

SITES, IMAGES, SIDE, ROUNDS, WORKERS, TURNS = 3, 180, 64, 12, 2, 3
METHODS = ["fedavg", "fedprox", "ditto", "fedsm"]
STUDY: dict[str, Any] = {"method": "fedsm", "image_size": SIDE, "rounds": ROUNDS}
MOST = 0.55  # of the time of one worker
MOST_OVER_CEILING = 1.1  # of the share that the cores themselves need
EPOCHS = 6  # of the pure computation


def run(out: Path) -> dict[str, Any]:
    """One worker, the ceiling, two workers, in turn."""
    folder = Path(out) / "compare"
    shutil.rmtree(folder, ignore_errors=True)
    write_retina(folder / "data", sites=SITES, images=IMAGES, size=SIDE, seed=0)
    turns = [(seconds_with(1, folder), computing(side_by_side=False), computing(side_by_side=True),
              seconds_with(WORKERS, folder)) for _ in range(TURNS)]
    shutil.rmtree(folder)
    alone, one_by_one, together, both = (min(seconds) for seconds in zip(*turns, strict=True))
    ratio, ceiling = both / alone, together / one_by_one
    return {
        "setting": f"{', '.join(METHODS)}; {SITES} sites, {IMAGES} images of {SIDE} px, {ROUNDS} rounds, "
                   f"{os.cpu_count()} cores; least of {TURNS} turns",
        "one_worker_seconds": alone,
        "two_workers_seconds": both,
        "two_workers_of_one": ratio,
        "pure_computation_side_by_side_of_one_by_one": ceiling,
        "promises": {
            f"two workers take at most {MOST:g} of the time of one": ratio <= MOST,
            f"two workers take at most {MOST_OVER_CEILING:g} of the share that pure computation takes on these cores":
                ratio <= MOST_OVER_CEILING * ceiling,
        },
    }


def seconds_with(workers: int, folder: Path) -> float:
    """The whole comparison, from reading the data to the table, anew."""
    shutil.rmtree(folder / f"workers-{workers}", ignore_errors=True)
    what = Comparison(parse_study(STUDY), folder / "data", METHODS, [0], folder / f"workers-{workers}",
                      threads=1, workers=workers)
    started = time.monotonic()
    with redirect_stderr(io.StringIO()):  # progress
        compare(what)
    return time.monotonic() - started


def computing(side_by_side: bool) -> float:
    """Seconds in which two processes train a net by the bare loop, together or in turn, once they are started."""
    command = [sys.executable, "-m", "fedsuper.bench.two_workers"]
    crew = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(WORKERS)]
    for one in crew:
        _hear(one)
    started = time.monotonic()
    for one in crew:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
        if not side_by_side:
            _hear(one)
    if side_by_side:
        for one in crew:
            _hear(one)
    passed = time.monotonic() - started
    for one in crew:
        one.communicate()
    return passed


def _hear(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    if not process.stdout.readline():
        raise RuntimeError(f"the measuring process ended early (exit {process.wait()})")


def _serve() -> None:
    torch.set_num_threads(1)
    loop = bare_loop(site_with(parse_study(STUDY), SIDE))
    loop()
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(EPOCHS):
        loop()
    print("done", flush=True)


if __name__ == "__main__":
    _serve()
