"""What sites could have chosen, scored on test images: the models that the sites kept."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
import yaml
from rehearsal import rehearse, small_study

from fedsuper.config.reading import parse_study
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.methods.parts.own_choice import CANDIDATES
from fedsuper.studies.personal import by_seed, hospitals, other_rules
from fedsuper.studies.personal.candidates import ROW, candidates_markdown, main


def test_the_candidates_of_a_run_stand_beside_what_was_taken(
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
        assert row[1 + taken] == row[1 + len(CANDIDATES)] and float(row[-1]) <= 0
    for kept in (run / "state" / "sites" / "site-1").glob("state-*"):
        kept.unlink()
    assert main([str(tmp_path / "run"), "--data", str(tmp_path / "root"), "--seeds", "0"]) == 2
    assert "site-1" in capsys.readouterr().err


def test_the_taken_one_stands_beside_the_best_of_the_means() -> None:
    text = candidates_markdown([{"a": [0.5, 0.7, 0.6, 0.2, 0.7]}, {"a": [0.9, 0.5, 0.6, 0.2, 0.5]}])
    assert "| a | 0.700 | 0.600 | 0.600 | 0.200 | 0.600 | -0.100 |" in text


def test_a_measurement_of_its_own_images_for_every_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = functools.partial(hospitals.write_hospitals, images=16, sites=2)
    monkeypatch.setattr(by_seed, "write_hospitals", small)
    changes = {"rounds": 7, "selector": {"kind": "statistics"}, "fedsm": {"fine_tune": 1}}
    study = small_study("fedsm").to_json() | changes
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    asked = ["--out", str(tmp_path / "run"), "--seeds", "0,1", "--test", "3", "--methods", f"softpull,fedsm,{ROW}"]
    assert by_seed.main([*asked, "--config", str(tmp_path / "study.yaml"), "--set", "rounds=1"]) == 0
    rows, candidates = capsys.readouterr().out.split("\n\n")[:2]
    assert [line.split(" | ")[0] for line in rows.splitlines()[2:]] == ["| softpull", "| fedsm", f"| {ROW}"]
    assert candidates.splitlines()[-1].startswith("| mean |")
    assert other_rules.main([str(tmp_path / "run"), "--seeds", "0,1"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()[2:]
    assert len(lines) == len(other_rules.RULES) and lines[-1].startswith("| all sites together |")
    roots = [tmp_path / "run" / "data" / f"seed-{seed}" for seed in (0, 1)]
    first, second = ((root / "site-1" / "images" / "0001.png").read_bytes() for root in roots)
    assert first != second, "every seed has its own images"
    parts = json.loads((roots[0] / "site-1" / "splits.json").read_text(encoding="utf-8"))
    assert len(parts["test"]) == 3 and len(parts["train"]) >= len(parts["val"]) >= 1
    assert len({name for names in parts.values() for name in names}) == sum(map(len, parts.values()))
