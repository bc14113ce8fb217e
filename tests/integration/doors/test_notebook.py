"""The tutorial notebook runs from the first cell to the last, as a reader would run it."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[3] / "docs" / "tutorial.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    return NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()


def said(notebook: nbformat.NotebookNode, part: str) -> str:
    """What the cell that holds `part` put on the page."""
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and part in cell.source]
    return "\n".join(
        output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in cell.outputs
    )


def test_the_doctor_names_the_missing_label(executed: nbformat.NotebookNode) -> None:
    found = said(executed, "fedsuper.doctor")
    assert "error | site-2/" in found and found.rstrip().endswith("0")


def test_the_modes_answer_with_the_models_the_text_promises(executed: nbformat.NotebookNode) -> None:
    answers = said(executed, "answered by")
    assert "global       answered by global" in answers and "site:site-2  answered by site-2" in answers


def test_the_comparison_has_a_row_for_every_method(executed: nbformat.NotebookNode) -> None:
    table = said(executed, "fedsuper.compare")
    assert all(f"\n{method} " in f"\n{table}" for method in ("local", "fedavg", "fedsm"))


def test_the_notebook_stays_small() -> None:
    assert NOTEBOOK.stat().st_size < 200_000
