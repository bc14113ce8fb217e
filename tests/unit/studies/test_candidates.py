"""What sites could have chosen, scored on test images: the same models as in the run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml
from rehearsal import rehearse, small_study

from fedsuper.config.reading import parse_study
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.methods.parts.own_choice import CANDIDATES, Choosing
from fedsuper.studies.personal.candidates import ROW, candidates_markdown, main


def test_the_candidates_of_a_run_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_retina(tmp_path / "root", sites=2, images=24, size=48, difficulty="easy")
    run = tmp_path / "run" / "runs" / ROW / "seed-0"
    monkeypatch.setattr("fedsuper.studies.personal.candidates.cell", lambda *_: run)
    study = parse_study(small_study("fedsm").to_json() | {"fedsm": {"personal": "auto", "fine_tune": 1}})
    whole = rehearse(study, tmp_path / "root", run / "state").super_model
    (run / "study.yaml").write_text(yaml.safe_dump(study.to_json()), encoding="utf-8")
    assert main([str(tmp_path / "run"), "--data", str(tmp_path / "root"), "--seeds", "0"]) == 0
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line]
    assert [row[0] for row in lines[2:]] == [*whole.sites, "mean"]
    for row in lines[2:-1]:
        taken = CANDIDATES.index(whole.manifest["chosen"][row[0]]["taken"])
        assert row[1 + taken] == row[4] and float(row[5]) <= 0
    nothing = [dict.fromkeys(whole.personal["site-1"], torch.zeros(1))] * len(CANDIDATES)
    monkeypatch.setattr(Choosing, "candidates_of", lambda *_: nothing)
    assert main([str(tmp_path / "run"), "--data", str(tmp_path / "root"), "--seeds", "0"]) == 2
    assert "cannot be made again" in capsys.readouterr().err


def test_the_taken_one_stands_beside_the_best_of_the_means() -> None:
    text = candidates_markdown([{"a": [0.5, 0.7, 0.6, 0.7]}, {"a": [0.9, 0.5, 0.6, 0.5]}])
    assert "| a | 0.700 | 0.600 | 0.600 | 0.600 | -0.100 |" in text
