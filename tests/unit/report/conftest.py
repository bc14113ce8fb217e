"""Run folders shared by the report's tests, written once."""

from pathlib import Path

import pytest
from fake_runs import write_comparison

from fedsuper.report.html import write_report


@pytest.fixture(scope="session")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four methods, two seeds, with examples."""
    return write_comparison(tmp_path_factory.mktemp("comparison") / "run")


@pytest.fixture(scope="session")
def comparison_page(comparison: Path) -> str:
    """Its report."""
    out = comparison.parent / "report.html"
    write_report([comparison], out)
    return out.read_text(encoding="utf-8")
