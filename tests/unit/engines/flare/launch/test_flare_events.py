"""Progress from the server's process to the terminal that waits."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from fedsuper.engines.flare.launch import events
from fedsuper.engines.flare.launch.events import EventReader, ServerProgress, lines_after
from fedsuper.federation.progress import Progress


def pair(tmp_path: Path) -> tuple[ServerProgress, list[str], EventReader, io.StringIO]:
    log: list[str] = []
    server = ServerProgress("fedsm", log.append, tmp_path / "events.jsonl")
    server.total = 2
    shown = io.StringIO()
    return server, log, EventReader(Progress("fedsm", 2, shown)), shown


def test_the_terminal_shows_what_the_server_says(tmp_path: Path) -> None:
    server, log, reader, shown = pair(tmp_path)
    server.note("warning: site-2: left out")
    server.round(1, "2/3 sites")
    server.round(2, "3/3 sites")
    reader.read_file(server.path)
    reader.read_file(server.path)
    expected = ["warning: site-2: left out", "round 1/2  2/3 sites", "round 2/2  3/3 sites  0 s left"]
    assert shown.getvalue().splitlines() == log == [f"fedsm: {line}" for line in expected]
    assert not reader.done and reader.failure is None


def test_how_it_ended(tmp_path: Path) -> None:
    server, _, reader, _ = pair(tmp_path)
    server.failed("site-1: no labels")
    reader.read_file(server.path)
    assert reader.failure == "site-1: no labels" and not reader.done
    server.done()
    reader.read_file(server.path)
    assert reader.done


def test_a_half_written_line_waits(tmp_path: Path) -> None:
    server, _, reader, shown = pair(tmp_path)
    server.note("whole")
    with open(server.path, "a") as file:
        file.write('{"kind": "note", "te')
    reader.read_file(server.path)
    assert shown.getvalue() == "fedsm: whole\n"
    with open(server.path, "a") as file:
        file.write('xt": "late"}\n')
    reader.read_file(server.path)
    assert shown.getvalue() == "fedsm: whole\nfedsm: late\n"
    assert len(lines_after(server.path, 1)) == 1


def test_no_file_yet_is_no_event(tmp_path: Path) -> None:
    reader = EventReader(Progress("x", None, io.StringIO()))
    reader.read_file(tmp_path / "absent.jsonl")
    assert reader.seen == 0


def test_a_new_run_starts_a_new_file(tmp_path: Path) -> None:
    server, *_ = pair(tmp_path)
    server.done()
    again, _, reader, _ = pair(tmp_path)
    reader.read_file(again.path)
    assert not reader.done


def test_a_full_disk_costs_no_event(tmp_path: Path) -> None:
    """In a process of its own: what it may write is limited to what the first event takes, and a little."""
    script = """if True:
        import resource, sys
        from pathlib import Path
        from fedsuper.engines.flare.launch.events import ServerProgress
        server = ServerProgress("fedsm", lambda text: None, Path(sys.argv[1]))
        server.note("before")
        size = server.path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, resource.RLIM_INFINITY))
        server.note("full")
        server.note("still full")
        assert server.path.stat().st_size == size and len(server.since(1)) == 2, server.since(0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        server.note("room")
        assert len(server.since(0)) == 4 and len(server.since(3)) == 1
    """
    path = tmp_path / "events.jsonl"
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    assert [json.loads(line)["text"] for line in lines_after(path, 0)] == ["before", "full", "still full", "room"]


def test_a_file_that_did_not_grow_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, _, reader, shown = pair(tmp_path)
    server.note("once")
    reader.read_file(server.path)
    read = Mock(side_effect=lines_after)
    monkeypatch.setattr(events, "lines_after", read)
    reader.read_file(server.path)
    assert not read.called
    server.note("twice")
    reader.read_file(server.path)
    assert read.call_count == 1 and shown.getvalue() == "fedsm: once\nfedsm: twice\n"
    reader.begin_again()
    reader.read_file(server.path)
    assert shown.getvalue().count("once") == 2
