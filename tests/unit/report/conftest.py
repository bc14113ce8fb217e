"""Run folders shared by the report's tests, written once."""

from pathlib import Path

import pytest
from fake_runs import write_comparison

from fedsuper.report.page import write_report


@pytest.fixture(scope="session")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four methods, two seeds, with examples."""
    return write_comparison(tmp_path_factory.mktemp("comparison") / "run")


@pytest.fixture(scope="session")
def comparison_file(comparison: Path) -> Path:
    """Its report."""
    out = comparison.parent / "report.html"
    write_report([comparison], out)
    return out


@pytest.fixture(scope="session")
def comparison_page(comparison_file: Path) -> str:
    """The text of its report."""
    return comparison_file.read_text(encoding="utf-8")
