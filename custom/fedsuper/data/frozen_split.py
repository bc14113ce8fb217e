"""A split that stays as it was when a run began.

A split is balanced by what labels show, so a corrected label could move images between train, validation and test. A
site therefore writes its split into its own state before round 1; from then on the file decides. It holds names and
cases and never leaves the site; a digest of it does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuper.data.layout import Item
from fedsuper.data.problems import DataProblem, some_of
from fedsuper.data.splits import PARTS, Split
from fedsuper.data.text_files import read_json_object
from fedsuper.files import atomic_write_json

FROZEN_FILE = "split.json"


@dataclass(frozen=True)
class SplitChanges:
    """What is no longer as it was when the split was frozen, by image name."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()

    def lines(self, where: Path) -> list[str]:
        """One line for each kind of change, for the eyes of the site only."""
        told = {
            "no longer there, the run goes on without": self.removed,
            "new since the run began and not used (a renamed image counts as removed and new)": self.added,
            "of another case in cases.csv now; their part stays": self.moved,
        }
        return [f"{where}: {some_of(list(names), 12)}: {what}" for what, names in told.items() if names]


@dataclass(frozen=True)
class FrozenSplit:
    """Part -> image name -> case."""

    parts: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, split: Split) -> FrozenSplit:
        """The split as it is now."""
        return cls({part: {item.name: item.case for item in split[part]} for part in PARTS})

    @property
    def digest(self) -> str:
        """SHA-256 over parts, names and cases: equal where no image changed its part."""
        rows = [[part, name, case] for part in PARTS for name, case in sorted(self.parts[part].items())]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    def apply(self, folder: Path, items: list[Item]) -> tuple[Split, SplitChanges]:
        """The folder's items in their frozen parts, and what changed since.

        A removed image is left out (a patient may withdraw), a new one is not used: it has no part.
        """
        found = {item.name: item for item in items}
        known = {name: case for part in PARTS for name, case in self.parts[part].items()}
        split = {part: [found[name] for name in sorted(self.parts[part]) if name in found] for part in PARTS}
        if known and not any(split.values()):
            raise DataProblem(folder, "holds none of the images that the run split", "give the data root of the run")
        for item in (item for part in PARTS for item in split[part]):
            if item.label is None:
                raise DataProblem(item.image, "has no label", "put its label back, or remove the image")
        changes = SplitChanges(
            added=tuple(sorted(found.keys() - known.keys())),
            removed=tuple(sorted(known.keys() - found.keys())),
            moved=tuple(sorted(name for name, case in known.items() if name in found and found[name].case != case)),
        )
        return split, changes


def write_frozen(path: Path, splits: Mapping[str, FrozenSplit]) -> None:
    """Write the splits of a site's folders (by folder name), whole or not at all."""
    folders = {name: {part: dict(split.parts[part]) for part in PARTS} for name, split in splits.items()}
    atomic_write_json(path, {"format": 1, "folders": folders})


def read_frozen(path: Path) -> dict[str, FrozenSplit]:
    """What `write_frozen` wrote, by folder name."""
    folders = read_json_object(path).get("folders")
    if not isinstance(folders, dict) or not all(map(_is_split, folders.values())):
        raise DataProblem(path, "is not a frozen split", "restore the file, or start a new run")
    return {name: FrozenSplit(parts) for name, parts in folders.items()}


def _is_split(parts: Any) -> bool:
    return isinstance(parts, dict) and set(parts) == set(PARTS) and all(
        isinstance(cases, dict) and all(isinstance(case, str) for case in cases.values()) for cases in parts.values()
    )
