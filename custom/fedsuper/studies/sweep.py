"""`fedsuper sweep`: tune methods alike. A grid is trained, validation data chooses, test data is told once.

A cell is a row of a comparison (`fedsm+lambda=0.3+local_epochs=5`) with one seed; finished cells are kept, so a broken
sweep goes on. The cell with the highest mean validation Dice over seeds is taken for each method, and only these are
scored on the test split: `metrics.json`, examples and the report are those of a comparison of the chosen cells.
`sweep.json` holds the grid, every cell's validation Dice, and what each method was given to tune with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from fedsuper.errors import FedSuperError
from fedsuper.evaluation.run_files.names import SUPER_MODEL, SWEEP
from fedsuper.evaluation.text_tables import text_table
from fedsuper.evaluation.validation import validation_dice
from fedsuper.files import atomic_write_json
from fedsuper.inference.supermodel_manifest import read_manifest
from fedsuper.methods import METHODS
from fedsuper.studies.cells.cell import Cell
from fedsuper.studies.compare import Comparison, compare_and_tell, variant


@dataclass(frozen=True)
class Axis:
    """A key of the study and the values to try; a key of one method (`fedsm.lambda`) is tried with that one alone."""

    key: str
    values: tuple[str, ...]

    def changes(self, method: str) -> list[str]:
        """What to add to the method's row for each value; none where the key is another method's."""
        owner, _, knob = self.key.partition(".")
        if owner not in METHODS:
            return [f"+{self.key}={value}" for value in self.values]
        return [f"+{knob}={value}" for value in self.values] if owner == method else []


def parse_axis(text: str) -> Axis:
    """`key=v1,v2,...`, as on the command line."""
    key, sign, values = text.partition("=")
    found = tuple(value.strip() for value in values.split(",") if value.strip())
    if not sign or not key.strip() or not found:
        raise FedSuperError(f"--over {text}: expected KEY=VALUE,VALUE, for example fedsm.lambda=0.3,0.5,0.7")
    if len(set(found)) < len(found):
        raise FedSuperError(f"--over {text}: names a value twice; give each once")
    return Axis(key.strip(), found)


def grid(method: str, axes: Sequence[Axis]) -> list[str]:
    """Every combination of values as a row; the method as it is where no axis concerns it."""
    changes = [found for axis in axes if (found := axis.changes(method))]
    return [method + "".join(parts) for parts in product(*changes)]


def sweep(what: Comparison, axes: Sequence[Axis]) -> str:
    """Train the grid of every method of `what`, choose, score the chosen ones, and tell."""
    cells = {method: grid(method, axes) for method in what.methods}
    unused = [axis.key for axis in axes if not any(axis.changes(method) for method in what.methods)]
    if unused:
        raise FedSuperError(f"--over {unused[0]}: no method of this sweep has it; add the method to --methods")
    for row in (row for rows in cells.values() for row in rows):
        variant(what.study, row)  # a mistake in the last cell is told before the first is trained
    record: dict[str, Any] = {
        "over": {axis.key: list(axis.values) for axis in axes},
        "seeds": what.seeds,
        "cells": {},
        "chosen": {},
        "budget": {method: {"cells": len(rows), "rounds": 0} for method, rows in cells.items()},
    }
    owner = {row: method for method, rows in cells.items() for row in rows}
    for cell in what.trained(what.cells(list(owner))):
        dice, rounds = _tuned(cell)
        record["cells"].setdefault(cell.row, {"validation": {}})["validation"][str(cell.seed)] = dice
        record["budget"][owner[cell.row]]["rounds"] += rounds
        atomic_write_json(what.out / SWEEP, record)
    record["chosen"] = {method: choose(rows, record["cells"]) for method, rows in cells.items()}
    atomic_write_json(what.out / SWEEP, record)
    table = compare_and_tell(replace(what, methods=list(record["chosen"].values())))
    return f"{tuning_table(record)}\n\nchosen on validation data, scored on test data:\n{table}"


def choose(rows: Sequence[str], cells: Mapping[str, Mapping[str, Any]]) -> str:
    """The row with the highest mean validation Dice over seeds; the first of equal ones."""
    return max(rows, key=lambda row: float(np.mean(list(cells[row]["validation"].values()))))


def tuning_table(record: Mapping[str, Any]) -> str:
    """Every cell with its validation Dice, the chosen ones marked, and each method's budget."""
    chosen = set(record["chosen"].values())
    rows = [
        [row, f"{np.mean(list(cell['validation'].values())):.3f}" + ("*" if row in chosen else " ")]
        for row, cell in record["cells"].items()
    ]
    budget = "; ".join(f"{m}: {b['cells']} cells, {b['rounds']} rounds" for m, b in record["budget"].items())
    return f"{text_table(['cell', 'validation '], rows)}\n* chosen. Tuning budget: {budget}"


def _tuned(cell: Cell) -> tuple[float, int]:
    """A trained cell's validation Dice and rounds."""
    manifest = read_manifest(cell.folder / SUPER_MODEL)
    score = validation_dice(manifest)
    if score is None:
        raise FedSuperError(f"{cell.folder}: has no validation score to choose by; give its sites validation images")
    return score, int(manifest["metrics"]["rounds"])
