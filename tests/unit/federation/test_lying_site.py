"""Every lie by name: the liar is named, and the study is, bit for bit, the one without its answer."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import pytest
from lies import LIES, LieOf
from paper_sites import LIAR, PaperSites, bits, federate, paper_study

from fedsuper.federation.messages import SiteFailure


@functools.cache
def without_answer(method: str, settings: str, task: str, at: int) -> dict[str, Any]:
    study = LieOf(task, at=at, method=method, settings=settings).study()
    with tempfile.TemporaryDirectory() as folder:
        absent = bits(federate(PaperSites(study, lambda _: SiteFailure("away"), task, at), Path(folder) / "absent")[0])
        present = bits(federate(PaperSites(study), Path(folder) / "present")[0])
    assert absent != present or method == "local", "an answer that makes no difference proves nothing"
    return absent


def test_there_are_at_least_as_many_lies_as_were_tried() -> None:
    assert len(LIES) >= 128


@pytest.mark.parametrize("name", LIES)
def test_a_lie_costs_the_liar_its_answer_and_nobody_else_anything(name: str, tmp_path: Path) -> None:
    lie = LIES[name]
    super_model, notes = federate(PaperSites(lie.study(), lie.tell, lie.task, lie.at), tmp_path)
    told = [line for line in notes.splitlines() if f"warning: {LIAR}: " in line]
    assert told, notes
    assert all(line.isprintable() and len(line) < 600 for line in told)
    assert bits(super_model) == without_answer(lie.method, lie.settings, lie.task, lie.at)


@pytest.mark.parametrize("method", ["fedavg", "fedsm", "ditto"])
def test_the_honest_are_let_in(method: str, tmp_path: Path) -> None:
    super_model, notes = federate(PaperSites(paper_study(method)), tmp_path)
    assert "warning" not in notes and super_model.manifest["metrics"]["rounds"] == 2
    assert set(super_model.manifest["metrics"]["test"]) == set(super_model.sites)
