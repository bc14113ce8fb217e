"""What the server of a running job tells whoever waits for it: one JSON line per event in a file.

A file, because the waiting process may be a grandparent of the server's (simulator) or on another machine, where the
lines are fetched with an NVFlare app command.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from fedsuper.config import Study
from fedsuper.federation.ledger.round_costs import RoundCost
from fedsuper.federation.progress import Progress
from fedsuper.methods import create_method
from fedsuper.methods.protocol.phases import planned_rounds

NOTE, ROUND, SITES, FAILED, PAUSED, DONE = "note", "round", "sites", "failed", "paused", "done"
# What a job leaves in its run folder on the server, and the command by which an admin asks for its events.
EVENTS_FILE = "fedsuper-events.jsonl"
SUPER_MODEL = "supermodel"
RESULT = "sites.json"  # what the sites told of an inference or an evaluation
EVENTS_COMMAND = "fedsuper.events"
PAUSE_COMMAND = "fedsuper.pause"  # end the job after the present round; it is submitted again by whoever asked


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
    """The server's side: every event goes to the log and to the file. What a full disk does not take is kept until it
    does, and is told whoever asks meanwhile."""

    def __init__(self, title: str, log: Callable[[str], None], path: Path) -> None:
        super().__init__(title, None, _LogStream(log))  # type: ignore[arg-type]
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._untold: list[str] = []
        self._hand = threading.Lock()
        with contextlib.suppress(OSError):
            self.path.write_text("", encoding="utf-8")

    def since(self, seen: int) -> list[str]:
        """The lines after the first `seen`, on disk or not."""
        with self._hand:
            written = lines_after(self.path, 0) if self.path.exists() else []
            return [*written, *self._untold][seen:]

    def note(self, text: str) -> None:
        self._add(NOTE, text=text)
        super().note(text)

    def round(self, number: int, summary: str, cost: RoundCost | None = None) -> None:
        self._add(ROUND, number=number, summary=summary, cost=cost.to_json() if cost else None)
        super().round(number, summary, cost)

    def attendance(self, present: Sequence[str], absent: Mapping[str, str]) -> None:
        self._add(SITES, present=list(present), absent=dict(absent))

    def failed(self, reason: str, broken: bool = False) -> None:
        """The study ended early; `reason` is what the user should read, `broken` that a process died, not the study."""
        self._add(FAILED, text=reason, broken=broken)

    def paused(self) -> None:
        """The job ends after a round, as it was asked to."""
        self._add(PAUSED)

    def done(self) -> None:
        """The super model is written."""
        self._add(DONE)

    def _add(self, kind: str, **values: Any) -> None:
        with self._hand:
            self._untold.append(json.dumps({"kind": kind, **values}) + "\n")
            before = self.path.stat().st_size if self.path.exists() else 0
            try:
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write("".join(self._untold))
                self._untold = []
            except OSError:
                with contextlib.suppress(OSError):
                    os.truncate(self.path, before)  # half a line would spoil the next


class EventReader:
    """The waiting side: shows notes and rounds on a terminal, remembers how it ended."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.invited: set[str] = set()  # newcomers for whom a job was ended once; not again if they do not fit
        self.begin_again()

    def begin_again(self) -> None:
        """Forget an attempt that was broken off; the next one writes its own events."""
        self.seen = 0
        self._size = 0  # bytes of the file when it was last read
        self.round: int | None = None  # the last complete one
        self.failure: str | None = None
        self.broken = False
        self.paused = False
        self.done = False

    def read_file(self, path: Path) -> None:
        """Show what was added to the file since the last time, if it grew; a line still being written waits for the
        next."""
        size = Path(path).stat().st_size if Path(path).exists() else 0
        if size and size != self._size:
            self._size = size
            self.show(lines_after(path, self.seen))

    def show(self, lines: Iterable[str]) -> None:
        """Show the lines that follow those already shown."""
        for line in lines:
            self.seen += 1
            event = json.loads(line)
            if event["kind"] == NOTE:
                self.progress.note(event["text"])
            elif event["kind"] == ROUND:
                self.round = event["number"]
                cost = event.get("cost")
                self.progress.round(event["number"], event["summary"], RoundCost.from_json(cost) if cost else None)
            elif event["kind"] == FAILED:
                self.failure, self.broken = event["text"], event.get("broken", False)
                self.progress.display.close()
            elif event["kind"] == PAUSED:
                self.paused = True
            elif event["kind"] == DONE:
                self.done = True
                self.progress.display.close()


def lines_after(path: Path, seen: int) -> list[str]:
    """The whole lines of an event file after the first `seen`."""
    lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    return [line for line in lines if line.endswith("\n")][seen:]


def reader_for(study: Study, stream: TextIO | None, run: Path | None = None) -> EventReader:
    """A reader that shows a study's events on `stream` and keeps the table of rounds in the folder `run`."""
    return EventReader(Progress(study.method, total_rounds(study), stream, run))


def total_rounds(study: Study) -> int | None:
    """How many rounds to expect; unknown where the study stops by itself."""
    return planned_rounds(study, create_method(study).phases())
