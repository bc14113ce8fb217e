"""The documents about methods: their code runs, their tables agree with the code."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from rehearsal import rehearse, small_study
from toy import MakeToy

from fedsuper.methods import METHODS
from fedsuper.methods.protocol.describe import describe_methods, method_rows

DOCS = Path(__file__).parents[3] / "docs"
HOW_TO = DOCS / "how-to" / "add-a-method.md"
REFERENCE = DOCS / "reference" / "methods.md"


def code_blocks(path: Path) -> list[str]:
    """The Python blocks of a document."""
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def fedavgm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The document's method, registered as the document says."""
    method, _ = code_blocks(HOW_TO)
    module = ModuleType("documented_fedavgm")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(method, str(HOW_TO), "exec"), module.__dict__)
    assert '"fedavgm": "fedsuper.methods.fedavgm:FedAvgM",' in HOW_TO.read_text(encoding="utf-8")
    monkeypatch.setitem(METHODS, "fedavgm", f"{module.__name__}:FedAvgM")


def test_the_documented_method_passes_its_documented_tests(fedavgm: None, toy: MakeToy) -> None:
    _, tests = code_blocks(HOW_TO)
    names: dict = {}
    exec(compile(tests, str(HOW_TO), "exec"), names)
    found = [name for name in names if name.startswith("test_")]
    assert len(found) == 2
    for name in found:
        names[name](toy)


def test_the_documented_method_trains_and_is_listed(fedavgm: None, tiny_root: Path, tmp_path: Path) -> None:
    assert "fedavgm: {beta: 0.9}" in describe_methods()
    outcome = rehearse(small_study("fedavgm", "batch"), tiny_root, tmp_path)
    state = outcome.super_model.global_model
    assert state is not None and all((state[name] >= 0).all() for name in state if name.endswith("running_var"))


def test_the_documents_pointers_lead_somewhere() -> None:
    folder = Path(sys.modules["fedsuper.methods"].__file__ or "").parent
    for name in re.findall(r"`(\w+\.py)`", HOW_TO.read_text(encoding="utf-8")):
        assert list(folder.rglob(name)), name


@pytest.mark.parametrize("row", method_rows(), ids=lambda row: row["method"])
def test_the_reference_names_every_method_and_knob_with_its_default(row: dict) -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    assert f"| `{row['method']}` |" in text
    section = re.search(rf"^### {row['method']}\n(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE)
    assert section is not None
    listed = dict(re.findall(r"^\| `([\w-]+)` \| `([^`]*)` \|", section.group(1), re.MULTILINE))
    told = {"None": "null", "False": "false", "True": "true"}
    assert listed == {knob: told.get(str(value), str(value)) for knob, value in row["knobs"].items()}
