"""Masks that appear exactly once and whole, whenever the process dies.

    1. the mask is written, whole, where nobody looks (`.watch/staged/NAME`)
    2. its record is written, whole (`.watch/records/NAME.json`): from now on the image counts as done
    3. the mask is moved to `OUTBOX/NAME` in one step

Killed before 2, nothing was published and the image is predicted again. Killed between 2 and 3, the next start finds
the record and completes step 3 without predicting. `routing.csv` is made anew from the records: no row stands twice.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_json, atomic_write_text, forget_unfinished

HIDDEN = ".watch"
ROUTING = "routing.csv"
STATUS = "watch.json"


@dataclass
class Outbox:
    """The folder masks appear in. `done` maps the mark of every finished image to its record."""

    folder: Path
    done: dict[str, dict[str, Any]] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    @property
    def _records(self) -> Path:
        return self.folder / HIDDEN / "records"

    @property
    def _staged(self) -> Path:
        return self.folder / HIDDEN / "staged"

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Hold the outbox for this process alone; the lock dies with the process, however it dies."""
        self._records.mkdir(parents=True, exist_ok=True)
        with open(self.folder / HIDDEN / "lock", "w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise FedSuperError(f"{self.folder}: another `fedsuper watch` works on this outbox; stop it first, "
                                    "or give another outbox") from None
            self._recover()
            yield

    def _recover(self) -> None:
        """Complete what a killed process left half done."""
        for folder in (self._records, self.folder):
            forget_unfinished(folder)
        for path in sorted(self._records.glob("*.json")):
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                mark, mask = str(record["mark"]), record["mask"]
            except (ValueError, KeyError, TypeError):
                raise FedSuperError(f"{path}: is not a record of this watch; remove the file, its image is then "
                                    "predicted again") from None
            if mask is not None:
                self._publish(mask)
                self._names.add(mask.casefold())
            self.done[mark] = record
        shutil.rmtree(self._staged, ignore_errors=True)
        self._staged.mkdir(parents=True)

    def free_name(self, stem: str, ending: str) -> str:
        """A mask name that is not taken: an image sent again under an old name does not replace the old mask."""
        number, name = 1, stem + ending
        while name.casefold() in self._names or (self.folder / name).exists():
            number += 1
            name = f"{stem}-{number}{ending}"
        return name

    def add(self, mark: str, mask: str, record: dict[str, Any], write: Callable[[Path], None]) -> None:
        """Write a mask by `write`, its record, and publish it: the three steps above."""
        write(self._staged / mask)
        self._keep(mark, record | {"mark": mark, "mask": mask}, mask)
        self._publish(mask)

    def add_refusal(self, mark: str, name: str, reason: str) -> None:
        """Remember that an image was refused, so that it is not tried again."""
        self._keep(mark, {"mark": mark, "mask": None, "image": name, "problem": reason}, f"refused-{mark}")

    def _keep(self, mark: str, record: dict[str, Any], name: str) -> None:
        atomic_write_json(self._records / f"{name}.json", record)
        self.done[mark] = record
        self._names.add(name.casefold())

    def _publish(self, mask: str) -> None:
        staged = self._staged / mask
        if staged.exists():
            os.replace(staged, self.folder / mask)

    def write_tables(self, routing: str, status: dict[str, Any]) -> None:
        """`routing.csv`, with a row a finished image, and `watch.json`, for whoever monitors this."""
        atomic_write_text(self.folder / ROUTING, routing)
        atomic_write_json(self.folder / STATUS, status)
