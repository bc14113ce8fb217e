"""What a prediction has done so far, on disk: `predict.json` and, while it runs, one line per image in a journal.

A run that was broken off, or that is given more images later, predicts only what is new: an image counts as done while
its mask is there, the image is the same file as before, and super model and settings have the same digest.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_json, forget_unfinished
from fedsuper.inference.predict.inputs import Job

RUN = "predict.json"
JOURNAL = "predict.journal"

Entry = dict[str, Any]


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Be the only prediction into `folder`. The lock is on the folder itself: no file of ours is left in it."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network folders know no such locks
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FedSuperError(f"{folder}: a prediction is at work here already; wait for it or stop it, or give "
                                    "another folder") from None
        yield
    finally:
        os.close(handle)


class Record:
    """The record of one output folder. `entries` are this run's images, in order, done or not."""

    def __init__(self, out: Path, about: Mapping[str, Any], jobs: Sequence[Job], again: bool) -> None:
        self.out = Path(out)
        self.about = dict(about)
        self._lines: TextIO | None = None
        self._one_at_a_time = threading.Lock()
        self.digest = hashlib.sha256(json.dumps(self.about, sort_keys=True, default=str).encode()).hexdigest()
        earlier = self.earlier = _read(self.out / RUN)
        known = _journal(self.out / JOURNAL, earlier)
        self.kept = {entry["mask"] for entry in known} | set(earlier.get("kept", []))
        same = earlier.get("digest") == self.digest and not again
        done = {entry["image"]: entry for entry in known if "model" in entry} if same else {}
        found = [_reusable(job, done.get(str(job.image)), self.out) for job in jobs]
        self.entries: list[Entry] = [one or _planned(job) for one, job in zip(found, jobs, strict=True)]

    @property
    def waiting(self) -> list[int]:
        """The numbers of the images that are not done."""
        return [number for number, entry in enumerate(self.entries) if "model" not in entry]

    def start(self, extra: Mapping[str, Any]) -> None:
        """Refuse to overwrite what no prediction wrote, then note what will be written."""
        masks = [entry["mask"] for entry in self.entries if "model" not in entry]
        there = [mask for mask in masks if (self.out / mask).exists()]
        sources = {os.path.realpath(entry["image"]) for entry in self.entries} if there else set()
        foreign = [mask for mask in there if mask not in self.kept or os.path.realpath(self.out / mask) in sources]
        if foreign:
            raise FedSuperError(f"{self.out / foreign[0]}: is there already and was not written by a prediction "
                                f"({len(foreign)} such file(s)); choose another --out")
        if self.earlier:
            forget_unfinished(self.out)
        self._write(extra, complete=False)
        (self.out / JOURNAL).unlink(missing_ok=True)

    def note(self, number: int, facts: Mapping[str, Any]) -> None:
        """Keep what became of an image, whatever happens next; several threads may tell."""
        with self._one_at_a_time:
            self.entries[number] |= facts
            self._lines = self._lines or open(self.out / JOURNAL, "a", encoding="utf-8", buffering=1)
            self._lines.write(json.dumps(self.entries[number]) + "\n")

    def finish(self, extra: Mapping[str, Any]) -> None:
        """The final record; the journal has done its work."""
        self._write(extra, complete=True)
        if self._lines is not None:
            self._lines.close()
        (self.out / JOURNAL).unlink(missing_ok=True)

    def _write(self, extra: Mapping[str, Any], complete: bool) -> None:
        kept = sorted(self.kept - {entry["mask"] for entry in self.entries})
        about = {key: value for key, value in self.about.items() if key != "settings"}
        atomic_write_json(self.out / RUN, {
            **about, **extra, "digest": self.digest, "complete": complete, "images": self.entries, "kept": kept,
        })


def _planned(job: Job) -> Entry:
    return {"image": str(job.image), "mask": job.mask, "source": _stamp(job.image)}


def _reusable(job: Job, done: Entry | None, out: Path) -> Entry | None:
    if done is None or done["mask"] != job.mask or done.get("source") != _stamp(job.image):
        return None
    return done if done["model"] == "abstain" or _is_whole(out / job.mask) else None


def _is_whole(mask: Path) -> bool:
    """Masks are moved into place in one step, but a machine that loses power may leave the last ones empty."""
    return mask.exists() and mask.stat().st_size > 0


def _stamp(image: Path) -> list[int] | None:
    """Size and time of an image's file, of all files of a series: what changes when the image does."""
    try:
        files = sorted(image.iterdir()) if image.is_dir() else [image]
        stats = [path.stat() for path in files]
    except OSError:
        return None
    return [len(stats), sum(one.st_size for one in stats), max((one.st_mtime_ns for one in stats), default=0)]


def _read(path: Path) -> dict[str, Any]:
    """An earlier record; `{}` where there is none."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if all(isinstance(entry["mask"], str) for entry in record["images"]) and isinstance(record["kept"], list):
            return dict(record)
        raise ValueError("its images have no masks")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FedSuperError(f"{path}: is not a prediction's record ({error}); choose another --out") from None


def _journal(path: Path, earlier: Mapping[str, Any]) -> list[Entry]:
    """The images of an earlier record with what its journal adds; a last line torn by a crash is left out."""
    known: dict[str, Entry] = {entry["image"]: entry for entry in earlier.get("images", [])}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        lines = []
    for line in lines:
        try:
            entry = json.loads(line)
            if entry["image"] in known:
                known[entry["image"]] = entry
        except (ValueError, KeyError, TypeError):
            continue
    return list(known.values())
