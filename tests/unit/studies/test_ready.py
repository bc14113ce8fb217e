"""Ready studies: every one is whole, says what its paper says, and runs from its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from fedsuper.cli.entry import main
from fedsuper.studies.compare import variant
from fedsuper.studies.ready import ready_study
from fedsuper.studies.ready.ready_names import FOLDER, ready_names
from fedsuper.studies.ready.ready_study import read_ready

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "ready-studies.md"
TINY = ["rounds=1", "image_size=32", "model.channels=[4,8]", "batch_size=4", "selector.net=small"]


@pytest.mark.parametrize("name", ready_names())
def test_every_row_is_a_valid_study(name: str) -> None:
    found = read_ready(name)
    for row in (*found.methods, *found.outside):
        variant(found.study, row)
    assert found.seeds and found.about
    assert f"`{name}`" in PAGE.read_text(encoding="utf-8")


def test_the_page_names_no_other() -> None:
    named = set(re.findall(r"`((?:fedsm|iop-fl)-[a-z-]+)`", PAGE.read_text(encoding="utf-8")))
    assert named == set(ready_names()) == {path.stem for path in FOLDER.glob("*.yaml")}


@pytest.mark.parametrize(("name", "lam"), [("fedsm-retina", 0.7), ("fedsm-prostate", 0.3)])
def test_the_full_studies_are_the_papers(name: str, lam: float) -> None:
    study = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())["study"]
    assert (study["rounds"], study["image_size"], study["loss"]) == (150, 256, "dice")
    assert study["selector"]["net"] == "vgg11" and study["fedsm"]["lambda"] == lam


def test_one_runs_from_its_name(
    tiny_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fewer_rows(name: str, overrides: Sequence[str]) -> ready_study.Ready:
        return replace(read_ready(name, overrides), methods=["fedavg", "fedsm"], outside=["fedavg"])

    monkeypatch.setattr(ready_study, "read_ready", fewer_rows)
    monkeypatch.chdir(tmp_path)
    shrink = [part for change in TINY for part in ("--set", change)]
    call = ["compare", "--study", "fedsm-retina", "--data", str(tiny_root), "--seeds", "0", "--workers", "1"]
    assert main([*call, *shrink]) == 0
    told = capsys.readouterr().out
    assert "fedsm" in told and "each site left out in turn" in told
    page = (tmp_path / "runs" / "fedsm-retina" / "report.html").read_text()
    assert page.count("<article") == 2  # inside, and outside


MISTAKES = {
    "no such ready study": ["--study", "fedsm-moon"],
    "brings its own --methods": ["--study", "fedsm-retina", "--methods", "fedavg"],
    "needs --out": [],
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_line(tiny_root: Path, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--data", str(tiny_root), *MISTAKES[words]]) == 2
    assert words in capsys.readouterr().err
