"""docs/reference/papers.md: every command is one that the product has, every pointer leads to a file."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fedsuper.cli.parser import build_parser
from fedsuper.config.reading import parse_study
from fedsuper.studies.compare import rows_named, variant
from fedsuper.studies.sweep import grid, parse_axis

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "papers.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| in the paper")
]
COMMANDS = sorted({command for row in ROWS for command in re.findall(r"`(fedsuper [^`]+)`", row[2])})


def test_every_row_has_a_command_and_a_place() -> None:
    assert len(ROWS) > 25
    for row in ROWS:
        assert len(row) == 4 and all(row), row
        assert re.search(r"`(fedsuper|make) [^`]+`", row[2]), row


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_understood_down_to_its_rows(command: str) -> None:
    options = build_parser().parse_args(shlex.split(command)[1:])
    axes = [parse_axis(text) for text in getattr(options, "over", [])]
    for method in rows_named(options.methods) if getattr(options, "methods", None) else []:
        for row in grid(method, axes) if axes else [method]:
            variant(parse_study({}), row)


def test_every_pointer_leads_to_a_file() -> None:
    names = [name for row in ROWS for name in re.findall(r"`([\w/]+\.py)`", row[1])]
    assert names
    for name in names:
        assert (ROOT / "custom" / "fedsuper" / name).is_file(), name


def test_every_table_and_figure_is_named() -> None:
    fedsm, iop_fl = PAGE.split("## IOP-FL")
    for number in range(1, 13):
        assert re.search(rf"Tables?[^|]*\b{number}\b|Tables?[^|]*\b{number - 1}, {number}\b", fedsm), f"Table {number}"
    for number in range(2, 9):
        assert re.search(rf"Figs?\.[^|]*\b{number}\b", fedsm), f"Fig. {number}"
    figures = [f"Fig. {number}" for number in ("4", "5", "6", "7a", "7b", "8", "9", "10")]
    for name in ("Table I:", "Table II:", "Table III:", *figures):
        assert name in iop_fl, name
