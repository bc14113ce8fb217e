"""The list of methods: complete, true to the code, and the rules every method file keeps."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fedsuper.methods
from fedsuper.config.reading import parse_study
from fedsuper.methods import METHODS, create_method, method_class
from fedsuper.methods.protocol.describe import describe_methods, method_rows

FOLDER = Path(fedsuper.methods.__file__).parent
FILES = sorted(path for path in FOLDER.glob("*.py") if path.name not in ("__init__.py", "base.py"))


def test_every_method_tells_what_travels_what_stays_and_where_it_comes_from() -> None:
    text = describe_methods()
    for row in method_rows():
        assert all(row[key] for key in ("travels", "keeps", "paper", "predicts"))
        assert row["method"] in text and row["travels"] in text and row["paper"] in text
        assert all(f"{knob}: " in text for knob in row["knobs"])
    assert len(method_rows()) == len(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_methods_listed_defaults_are_its_defaults(name: str) -> None:
    (row,) = [row for row in method_rows() if row["method"] == name]
    study = parse_study({"method": name, name: row["knobs"]})
    assert create_method(study).knobs == method_class(name).Knobs() and method_class(name).name == name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_method_file_is_short_and_has_no_loop_over_epochs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert "nvflare" not in text
    loops = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.For | ast.While)]
    assert not any("epoch" in ast.unparse(loop).lower() for loop in loops)
    assert ast.get_docstring(ast.parse(text))
