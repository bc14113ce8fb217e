"""A problem of a data folder, kept in its parts so that an error line and a doctor finding tell the same story."""

from __future__ import annotations

from pathlib import Path

from fedsuper.errors import FedSuperError


class DataProblem(FedSuperError):  # noqa: N818 (the doctor calls it a problem, too)
    """One thing wrong with one file or folder: where, what, and how to fix it."""

    def __init__(self, where: Path | str, what: str, fix: str):
        self.where, self.what, self.fix = (one_line(str(part)) for part in (where, what, fix))
        super().__init__(f"{self.where}: {self.what}; {self.fix}")

    def __reduce__(self) -> tuple[type[DataProblem], tuple[str, str, str]]:
        # The default would rebuild from the joined message and fail, hiding the problem when it crosses processes.
        return type(self), (self.where, self.what, self.fix)


def one_line(text: str) -> str:
    """`text` as one printable line: names come from file systems and files, and may hold anything."""
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in " ".join(text.split(None)))
    return "".join(escaped)


def some_of(names: list[str], limit: int = 3) -> str:
    """The first few `names`, and how many more there are: `a, b, c and 4 more`."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
