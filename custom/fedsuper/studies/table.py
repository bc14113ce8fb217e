"""A comparison's outcome for Python: the numbers of `metrics.json` by method, shown as the table a terminal gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuper.evaluation.run_files.names import METRICS
from fedsuper.files import read_json


@dataclass(frozen=True, repr=False)
class ComparisonTable(Mapping[str, dict[str, Any]]):
    """`table["fedsm"]["client_avg"]`; `folder` is what `fedsuper report` takes."""

    folder: Path
    methods: dict[str, dict[str, Any]]
    text: str

    @classmethod
    def read(cls, folder: Path, text: str) -> ComparisonTable:
        """The finished comparison in `folder`, with its table as text."""
        return cls(folder, read_json(folder / METRICS, "run the comparison again")["methods"], text)

    def __getitem__(self, method: str) -> dict[str, Any]:
        return self.methods[method]

    def __iter__(self) -> Iterator[str]:
        return iter(self.methods)

    def __len__(self) -> int:
        return len(self.methods)

    def __repr__(self) -> str:
        return self.text
