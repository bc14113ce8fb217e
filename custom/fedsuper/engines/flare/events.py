"""What the server of a running job tells whoever waits for it: one JSON line per event in a file.

A file, because the waiting process may be a grandparent of the server's (simulator) or on another machine, where the
lines are fetched with an NVFlare app command.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

from fedsuper.config import Study
from fedsuper.engines.progress import Progress

NOTE, ROUND, FAILED, DONE = "note", "round", "failed", "done"


class _LogStream:
    """Lets `Progress` write its lines into NVFlare's log."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self.log = log

    def write(self, text: str) -> None:
        self.log(text.strip())

    def flush(self) -> None:
        return

    def isatty(self) -> bool:
        return False


class ServerProgress(Progress):
    """The server's side: every event goes to the log and to the file."""

    def __init__(self, title: str, log: Callable[[str], None], path: Path) -> None:
        super().__init__(title, None, _LogStream(log))  # type: ignore[arg-type]
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("", encoding="utf-8")

    def note(self, text: str) -> None:
        self._add(NOTE, text=text)
        super().note(text)

    def round(self, number: int, summary: str) -> None:
        self._add(ROUND, number=number, summary=summary)
        super().round(number, summary)

    def failed(self, reason: str) -> None:
        """The study ended early; `reason` is what the user should read."""
        self._add(FAILED, text=reason)

    def done(self) -> None:
        """The super model is written."""
        self._add(DONE)

    def _add(self, kind: str, **values: Any) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, **values}) + "\n")


class EventReader:
    """The waiting side: shows notes and rounds on a terminal, remembers how it ended."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.seen = 0
        self.failure: str | None = None
        self.done = False

    def read_file(self, path: Path) -> None:
        """Show what was added to the file since the last time; a line still being written waits for the next."""
        if Path(path).exists():
            self.show(lines_after(path, self.seen))

    def show(self, lines: Iterable[str]) -> None:
        """Show the lines that follow those already shown."""
        for line in lines:
            self.seen += 1
            event = json.loads(line)
            if event["kind"] == NOTE:
                self.progress.note(event["text"])
            elif event["kind"] == ROUND:
                self.progress.round(event["number"], event["summary"])
            elif event["kind"] == FAILED:
                self.failure = event["text"]
            elif event["kind"] == DONE:
                self.done = True


def lines_after(path: Path, seen: int) -> list[str]:
    """The whole lines of an event file after the first `seen`."""
    lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    return [line for line in lines if line.endswith("\n")][seen:]


def reader_for(study: Study, stream: TextIO | None) -> EventReader:
    """A reader that shows a study's events on `stream`."""
    return EventReader(Progress(study.method, total_rounds(study), stream))


def total_rounds(study: Study) -> int | None:
    """How many rounds to expect; unknown where the study stops by itself."""
    return study.rounds if isinstance(study.rounds, int) else None
