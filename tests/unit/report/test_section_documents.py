"""The document about sections: its code runs and makes what it says."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from fedsuper.report import sections
from fedsuper.report.page import write_report

ROOT = Path(__file__).parents[3]
HOW_TO = ROOT / "docs" / "how-to" / "add-a-section.md"


def test_the_documented_section_is_in_the_report(
    comparison: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", HOW_TO.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    module = ModuleType("documented_attendance")
    exec(compile(code, str(HOW_TO), "exec"), module.__dict__)
    assert "\nattendance.build,\n" in HOW_TO.read_text(encoding="utf-8")
    monkeypatch.setattr(sections, "SECTIONS", [*sections.SECTIONS, module.build])
    write_report([comparison], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    section = page[page.index('id="part-1-attendance"') :]
    assert section.count("<td>birch</td><td>3</td>") == 3  # FedAvg, FedSM, local; pooled training has no sites
    assert '<a href="#part-1-attendance">Attendance</a>' in page


def test_the_documents_pointers_lead_somewhere() -> None:
    table = HOW_TO.read_text(encoding="utf-8").partition("## Where other things go")[2]
    names = re.findall(r"`((?:\w+/)*\w+\.py)`", table)
    assert len(names) > 5
    for name in names:
        assert list((ROOT / "custom" / "fedsuper").rglob(name)), name
