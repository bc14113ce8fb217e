"""The document about importers: its code runs and imports what it says."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from import_files import circle, photograph, save

from fedsuper.data import importers
from fedsuper.data.images.io import read_label
from fedsuper.data.layout import list_items

ROOT = Path(__file__).parents[4]
HOW_TO = ROOT / "docs" / "how-to" / "add-an-importer.md"


def test_the_documented_importer_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = HOW_TO.read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    module = ModuleType("documented_two_eyes")
    exec(compile(code, str(HOW_TO), "exec"), module.__dict__)
    monkeypatch.setitem(importers.SOURCES, "two-eyes", module.TWO_EYES)
    for seed, name in enumerate(("7-left", "7-right", "8-left")):
        save(tmp_path / "raw" / f"{name}.jpg", photograph(seed))
        save(tmp_path / "raw" / f"{name}_disc.png", circle(18).astype(np.uint8) * 255)
        if name != "8-left":
            save(tmp_path / "raw" / f"{name}_cup.png", circle(8).astype(np.uint8) * 255)
    result = importers.import_dataset("two-eyes", tmp_path / "raw", tmp_path / "root" / "site")
    assert [skipped.name for skipped in result.skipped] == ["8-left"]
    items = list_items(tmp_path / "root" / "site", require_labels=True)
    assert [(item.name, item.case) for item in items] == [("7-left", "7"), ("7-right", "7")]
    for item in items:
        assert item.label is not None
        np.testing.assert_array_equal(read_label(item.label)[0], circle(18).astype(int) + circle(8))


def test_the_documents_pointers_lead_somewhere() -> None:
    text = HOW_TO.read_text(encoding="utf-8")
    names = re.findall(r"`((?:\w+/)*\w+\.py)`", text.partition("## Where other things go")[2])
    assert len(names) > 8
    for name in names:
        assert list((ROOT / "custom" / "fedsuper" / "data" / "importers").rglob(name)), name
    for word in ("pair_nifti", "read_itk", "volume_entry", "read_series", "nested_regions", "note_merged", "merged"):
        sources = (ROOT / "custom" / "fedsuper" / "data" / "importers").rglob("*.py")
        assert word in text and any(f"def {word}(" in path.read_text(encoding="utf-8") for path in sources), word
