"""A fork of this process is a program of its own: it computes, is found by its mark, and does nothing else."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from fedsuper.engines.flare.launch.births import own_fork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux alone")

BEGIN = """
import atexit, os, signal, subprocess, sys, torch
from pathlib import Path
from fedsuper.engines.flare.launch.births.own_fork import forked, is_safe
from fedsuper.engines.flare.launch.processes import ProcessFamily

log, family = Path(sys.argv[1]), ProcessFamily()

def start(program):
    assert is_safe()
    with open(log, "wb") as output:
        return forked(program, family.environment({"WHO": "fork"}), output, family.mark)
"""

LIFE = BEGIN + """
atexit.register(print, "the end of the process before")

def program():
    print(os.environ["WHO"], os.getsid(0) == os.getpid(), sys.stdin.read() == "")
    return 7

fork = start(program)
assert fork.wait(60) == 7 == fork.poll() and "WHO" not in os.environ
assert log.read_text() == "fork True True\\n", log.read_text()
"""

COMPUTE = BEGIN + """
def compute():
    torch.set_num_threads(2)
    return float(torch.ones(2_000_000).exp().sum())

expected = compute()
fork = start(lambda: 0 if compute() == expected else 5)
assert fork.wait(60) == 0, log.read_text()
"""

FAMILY = BEGIN + """
def program():
    child = os.fork()
    if child == 0:
        os.setsid()
        print(os.getpid(), flush=True)
    sys.stdout.flush()
    while True:
        signal.pause()

fork = start(program)
while not log.read_text().endswith("\\n"):
    try:
        fork.wait(0.02)
    except subprocess.TimeoutExpired:
        continue
assert {member.pid for member in family.members()} == {fork.pid, int(log.read_text())}
assert ProcessFamily().members() == []
family.end()
assert fork.wait(60) == -9 and family.members() == []
"""

PIPE = BEGIN + """
reading, writing = os.pipe()
fork = start(lambda: signal.pause() or 0)
os.close(writing)
assert os.read(reading, 1) == b""  # the fork does not hold it open
assert fork.poll() is None
family.end()
assert fork.wait(60) == -9
"""

FAILURE = BEGIN + """
def program():
    raise ValueError("spoiled")

fork = start(program)
assert fork.wait(60) == 1 and "ValueError: spoiled" in log.read_text()
"""


@pytest.mark.parametrize("program", [LIFE, COMPUTE, FAMILY, PIPE, FAILURE],
                         ids=["life", "compute", "family", "pipe", "failure"])
def test_a_fork_is_a_program_of_its_own(tmp_path: Path, program: str) -> None:
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_process_with_threads_or_a_graphics_driver_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert own_fork.is_safe()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not own_fork.is_safe()
    monkeypatch.undo()
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    try:
        assert not own_fork.is_safe()
    finally:
        over.set()
        other.join()
