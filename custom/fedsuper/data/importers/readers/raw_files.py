"""Looking through a raw folder: one walk, names without endings, and a line that says what was found."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from fedsuper.data.layout import stem_of, suffix_of
from fedsuper.data.problems import some_of

JUNK = ("thumbs.db", "desktop.ini")


def files_under(folder: Path) -> list[Path]:
    """Every file below `folder` in a fixed order, without hidden ones; linked folders are entered once."""
    found: list[Path] = []
    seen: set[tuple[int, int]] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        identity = os.stat(place)
        if (identity.st_dev, identity.st_ino) in seen:
            folders.clear()
            continue
        seen.add((identity.st_dev, identity.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__MACOSX")
        found += [Path(place, name) for name in names if not name.startswith(".") and name.lower() not in JUNK]
    return sorted(found)


def with_suffix(files: Iterable[Path], *suffixes: str) -> list[Path]:
    """The files whose names end in one of `suffixes`, in upper or lower case."""
    return [path for path in files if path.name.lower().endswith(suffixes)]


def in_folder(files: Iterable[Path], *names: str) -> list[Path]:
    """The files that lie directly in a folder of one of these names (case does not matter)."""
    wanted = {name.lower() for name in names}
    return [path for path in files if path.parent.name.lower() in wanted]


def bare_name(path: Path) -> str:
    """The file's name without its ending, `.nii.gz` being one."""
    return path.stem if suffix_of(path) is None else stem_of(path)


def by_stem(files: Iterable[Path], key: Callable[[str], str | None] = lambda stem: stem) -> dict[str, Path]:
    """The files by `key` of their names without ending; the first of equal keys stays, a key of None is left out."""
    found: dict[str, Path] = {}
    for path in files:
        name = key(bare_name(path))
        if name is not None:
            found.setdefault(name, path)
    return found


def what_is_in(folder: Path) -> str:
    """A few words on the content of `folder`, for an error line."""
    entries = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in folder.iterdir())
    visible = [name for name in entries if not name.startswith(".")]
    return some_of(visible, 6) if visible else "nothing"
