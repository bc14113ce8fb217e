"""What an importer is: a survey of a raw folder that yields image-label pairs, read only when they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fedsuper.data.task import Task

RETINA = Task("retina", 3, {"disc": (1, 2), "cup": (2,)})
PROSTATE = Task("prostate", 1, {"prostate": (1,)})


class UnusableCaseError(Exception):
    """This one pair cannot be used, for the given reason; the import goes on and reports it as skipped."""


@dataclass(frozen=True)
class Kept:
    """A file that goes over as it is: copied or linked, never re-encoded."""

    path: Path
    suffix: str


@dataclass(frozen=True)
class Made:
    """A file the set does not have in this form: `write` makes it at the path it is given."""

    suffix: str
    write: Callable[[Path], None]


@dataclass(frozen=True)
class Pair:
    """An image and its label, both read once and found whole and of one size."""

    image: Kept | Made
    label: Kept | Made


@dataclass(frozen=True)
class Entry:
    """One case of a raw set. `read` opens its files; it raises UnusableCaseError, or DataProblem on a torn file."""

    name: str
    read: Callable[[], Pair]
    case: str | None = None


@dataclass(frozen=True)
class Skipped:
    """A case that was left out, and why."""

    name: str
    reason: str


@dataclass
class Survey:
    """What a raw folder holds: cases to import, cases left out, remarks for the user.

    Where the importer serves any task, `values` are the label values of the cases read so far, and `task` is asked for
    once all were read, if the data root has no `dataset.json` yet.
    """

    entries: list[Entry] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    task: Callable[[], Task] | None = None
    values: set[int] = field(default_factory=set)

    def add(self, name: str, read: Callable[..., Pair], masks: Mapping[str, Path | None]) -> None:
        """Take `name` in, to be read from its masks; if one is missing, leave it out for the reason it stands under."""
        for reason, path in masks.items():
            if path is None:
                self.skip(name, reason)
                return
        self.entries.append(Entry(name, partial(read, *masks.values())))

    def skip(self, name: str, reason: str) -> None:
        """Leave `name` out."""
        self.skipped.append(Skipped(name, reason))

    def note_merged(self, source: str, parts: Iterable[str]) -> None:
        """Tell the user when several hospitals went into one site: they hide their differences from the federation."""
        names = sorted(parts)
        if len(names) > 1:
            joined = ", ".join(names)
            self.notes.append(f"{joined} differ and are now one site; {source}:{names[0]} imports one of them alone")


@dataclass(frozen=True)
class Importer:
    """A source of data: the task it serves, the folder tree it expects (one line), and how to survey it.

    `task` is None where it serves any. `parts` are the hospitals or subsets that can be imported alone, as
    `SOURCE:PART`. `about` is what `--help` says. `remapped` gives the importer that maps mask values, where a user may
    choose what they mean.
    """

    source: str
    task: Task | None
    expects: str
    survey: Callable[[Path, str | None], Survey]
    parts: tuple[str, ...] = ()
    about: str = ""
    remapped: Callable[[Mapping[int, int]], Importer] | None = None


@dataclass(frozen=True)
class ImportResult:
    """What an import did: cases now in the site, files written and found already there, what was left out."""

    site: Path
    images: int
    written: int
    unchanged: int
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]

    def summary(self) -> str:
        """What to tell the user: a line of counts, then one line per remark and per case left out."""
        counts = f"{self.written} files written, {self.unchanged} already there, {len(self.skipped)} cases skipped"
        lines = [f"{self.site}: {self.images} images with labels ({counts})"]
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"skipped {skipped.name}: {skipped.reason}" for skipped in self.skipped]
        return "\n".join(lines)
