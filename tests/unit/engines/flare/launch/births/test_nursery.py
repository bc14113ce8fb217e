"""A nursery gives its holder processes that start warm and answer as `subprocess.Popen` would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fedsuper.engines.flare.launch.births import nursery

PROGRAM = """
import os, sys, time
from pathlib import Path
from fedsuper.engines.flare.launch.births.nursery import Nursery

def life(arguments):
    Path(arguments[0]).write_text(" ".join([*arguments[1:], os.environ["WHO"], str(os.getsid(0) == os.getpid())]))
    if "stay" in arguments:
        time.sleep(60)

out = Path(sys.argv[1])
home = Nursery(life)
first = home.born([str(out / "one"), "a b"], {"WHO": "first"})
assert first.wait(20) == 1 and first.poll() == 1
second = home.born([str(out / "two"), "stay"], {"WHO": "second"})
while not (out / "two").exists() or not (out / "two").read_text():
    time.sleep(0.01)
assert second.poll() is None and "WHO" not in os.environ
second.terminate()
assert second.wait(20) == 1
print(second.pid)
"""


def test_lives_begin_and_end_as_asked(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "one").read_text() == "a b first True" and (tmp_path / "two").read_text() == "stay second True"


def test_a_process_that_is_gone_already_is_gone() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    birth = nursery.Birth(gone.pid)
    birth.kill()
    assert birth.poll() == nursery.GONE and birth.wait(1) == nursery.GONE


def test_whoever_does_not_wait_long_enough_is_told() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as alive:
        birth = nursery.Birth(alive.pid)
        with pytest.raises(subprocess.TimeoutExpired):
            birth.wait(0.01)
        birth.kill()
