"""What an importer is: a survey of a raw folder that yields image-label pairs, read only when they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fedsuper.data.task import Task
from fedsuper.errors import FedSuperError

RETINA = Task("retina", 3, {"disc": (1, 2), "cup": (2,)})
PROSTATE = Task("prostate", 1, {"prostate": (1,)})


class Unusable(Exception):
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
    """One case of a raw set. `read` opens its files: it raises `Unusable`, or FedSuperError when a file is torn."""

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
    """What a raw folder holds: cases to import, cases left out, and remarks for the user."""

    entries: list[Entry] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def skip(self, name: str, reason: str) -> None:
        """Leave `name` out."""
        self.skipped.append(Skipped(name, reason))


@dataclass(frozen=True)
class Importer:
    """A public set: the task it serves, the folder tree it expects (one line), and how to survey it.

    `parts` are the hospitals or subsets that can be imported alone, as `SOURCE:PART`.
    """

    source: str
    task: Task
    expects: str
    survey: Callable[[Path, str | None], Survey]
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportResult:
    """What an import did: cases now in the site, files written and found already there, what was left out."""

    site: Path
    images: int
    written: int
    unchanged: int
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]


def torn(path: Path, reason: object) -> FedSuperError:
    """The error for a file that cannot be read."""
    detail = " ".join(str(reason).split()) or type(reason).__name__
    return FedSuperError(f"import: {path} cannot be read ({detail}); it may be torn: fetch it again or remove it")
