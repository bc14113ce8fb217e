"""Two places on a machine: a third site waits until one is left, and nobody waits for the dead or for ever."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from fedsuper.engines.flare.contact.places import place


def test_a_third_waits_until_one_leaves(tmp_path: Path) -> None:
    computing: list[str] = []
    third = threading.Event()

    def compute() -> None:
        with place(tmp_path, 2) as taken:
            computing.append(f"third {taken}")
            third.set()

    with place(tmp_path, 2) as one, place(tmp_path, 2) as two:
        assert one and two
        with place(tmp_path, 2, patience=0) as taken:
            assert not taken  # nobody waits for ever
        waiting = threading.Thread(target=compute)
        waiting.start()
        computing.append("two")
    assert third.wait(30)
    waiting.join()
    assert computing == ["two", "third True"]


def test_a_process_that_is_killed_leaves_its_place(tmp_path: Path) -> None:
    said, saying = os.pipe()
    child = os.fork()
    if child == 0:
        with place(tmp_path, 1):
            os.write(saying, b"x")
            signal.pause()
    os.read(said, 1)
    with place(tmp_path, 1, patience=0) as taken:
        assert not taken
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with place(tmp_path, 1, patience=0) as taken:
        assert taken


def test_where_every_site_has_a_machine_nothing_is_written(tmp_path: Path) -> None:
    with place(None, 2) as one, place(tmp_path, None) as two, place(tmp_path / "gone", 2) as three:
        assert not one and not two and not three
    assert list(tmp_path.iterdir()) == []
