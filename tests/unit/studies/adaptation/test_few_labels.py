"""The table of what a few labels are worth: every row beside five labels, on images that nobody labeled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedsuper.evaluation.evaluate import ScoredImage
from fedsuper.evaluation.outside import OutsideRow
from fedsuper.studies.adaptation import few_labels
from fedsuper.studies.adaptation.few_labels import OWN, main


def row(mode: str, dice: list[float]) -> OutsideRow:
    images = [ScoredImage("outside", f"image-{n}", f"case-{n}", {"disc": one}, mode) for n, one in enumerate(dice)]
    return OutsideRow(mode, images)


def test_the_table_says_what_five_labels_are_worth_beside_every_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(few_labels, "_data", lambda root, kind, seed: Path(kind))
    monkeypatch.setattr(few_labels, "_trained", lambda folder, seed: None)
    worth = {"near": 0.8, "unlike": 0.6}
    monkeypatch.setattr(few_labels, "_scored", lambda model, root, seed: [
        row("global", [0.5, 0.6, 0.7]), row(OWN, [worth[str(root)] + seed / 10] * 3)])
    assert main(["--out", str(tmp_path), "--seeds", "0,1"]) == 0
    lines = [line.split(" | ") for line in (tmp_path / "adaptation.md").read_text(encoding="utf-8").splitlines()]
    near = {cells[0].strip("| "): cells[1:] for cells in lines[2:4]}
    assert near["global"][2].startswith("0.600 (") and near["global"][3].startswith("+0.250 (")
    assert near[OWN][:2] == ["0.800 (0.800 to 0.800)", "0.900 (0.900 to 0.900)"]
    told = json.loads((tmp_path / "adaptation.json").read_text(encoding="utf-8"))
    assert told["seeds"] == [0, 1] and told["hospitals"]["unlike"]["1"][OWN]["mean"] == pytest.approx(0.7)
    assert main(["--out", str(tmp_path), "--seeds", "one"]) == 2
    assert "one" in capsys.readouterr().err
