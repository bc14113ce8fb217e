"""What has arrived, and whether it is all there.

An image is complete when nothing about it (names, sizes, times) has changed for `settle` seconds: that holds for a file
being copied, for a DICOM series that arrives slice by slice, and on network folders that send no events.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fedsuper.files import atomic_write_text

REFUSED = "refused"
# What copying tools call a file while they write it; never an image of ours.
UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".filepart", ".swp", "~")


@dataclass(frozen=True)
class Arrival:
    """An image in the inbox. `mark` changes whenever any of its files does."""

    path: Path
    mark: str


@dataclass
class Inbox:
    """The folder images arrive in; `folder/refused` takes those that cannot be read, each with its reason."""

    folder: Path
    settle: float = 2.0
    clock: Callable[[], float] = time.monotonic
    _seen: dict[Path, tuple[str, float]] = field(default_factory=dict)

    def arrivals(self) -> tuple[list[Arrival], int]:
        """The complete images, oldest name first, and how many are still arriving."""
        now = self.clock()
        before, self._seen = self._seen, {}
        complete: list[Arrival] = []
        for path in self._entries():
            mark = mark_of(path)
            if mark is None:
                continue
            known, since = before.get(path, ("", now))
            since = since if known == mark else now
            self._seen[path] = (mark, since)
            if now - since >= self.settle:
                complete.append(Arrival(path, mark))
        return complete, len(self._seen) - len(complete)

    def unchanged(self, arrival: Arrival) -> bool:
        """Whether an image is still what it was when it was found complete."""
        return mark_of(arrival.path) == arrival.mark

    def refuse(self, arrival: Arrival, reason: str) -> Path | None:
        """Move an image aside with its reason beside it; None where the inbox may not be written to."""
        target = self.folder / REFUSED / arrival.path.name
        number = 1
        while target.exists():
            number += 1
            target = target.with_name(f"{number}-{arrival.path.name}")
        try:
            atomic_write_text(target.with_name(f"{target.name}.reason.txt"), reason + "\n")
            os.replace(arrival.path, target)
        except OSError:
            return None
        return target

    def _entries(self) -> list[Path]:
        with os.scandir(self.folder) as found:
            return sorted(Path(entry.path) for entry in found if _may_be_an_image(entry))


def _may_be_an_image(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or entry.name == REFUSED or entry.name.lower().endswith(UNFINISHED):
        return False
    try:
        return entry.is_file() or entry.is_dir()
    except OSError:  # a link that leads in a circle, or to where we may not look
        return False


def mark_of(path: Path) -> str | None:
    """A digest of the names, sizes and times behind `path`; None where it is gone, empty or no plain file."""
    marks = []
    try:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            status = file.stat()
            if file.name.lower().endswith(UNFINISHED):
                return None
            if stat.S_ISREG(status.st_mode):
                marks.append(f"{file.name}|{status.st_size}|{status.st_mtime_ns}|{status.st_ino}")
    except OSError:
        return None
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()[:32] if marks else None
