"""Every selector and gate of a trained super model on test images, beside what could have been chosen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from rehearsal import small_study

from fedsuper.core.mode import GLOBAL
from fedsuper.core.validated.selection_choice import AUTO, options_of
from fedsuper.data.synthetic.eye.eye_sites import eye_hospital
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.gate_statistics import expert_dice
from fedsuper.studies.selection import at_neighbors, federations
from fedsuper.studies.selection.every_option import by_kind, main
from fedsuper.studies.selection.neighbors import neighbor
from fedsuper.studies.selection.scored_options import KNOWN, NAMED, ORACLE, TAKEN, hospital_images, option_scores


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A kind of its own, `tiny`, with further images, and where its federations are kept."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "study.yaml").write_text(yaml.safe_dump(small_study("fedsm").to_json()), encoding="utf-8")
    kind = federations.Kind(lambda root, seed: write_retina(root, sites=2, images=40, size=48, seed=seed),
                            folder / "study.yaml", ("rounds=2",), split_by_seed=True, eyes=48)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(federations.KINDS, "tiny", kind)
        yield folder / "out"


def test_a_federation_under_every_option(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tiny
    assert main(["--out", str(out), "tiny:3"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "|  | tiny 3 | mean |"
    rows = json.loads((out / "options.json").read_text(encoding="utf-8"))["tiny-3"]
    options = {option.name: rows[option.name] for option in options_of(AUTO, AUTO)}
    taken = load_super_model(out / "tiny-3/run/runs/fedsm/seed-3/supermodel").manifest["selection"]
    assert rows[TAKEN] == options[f"{taken['kind']}/{taken['gate']}"]
    assert all(value <= rows[ORACLE] + 1e-9 for value in [*options.values(), rows[GLOBAL], rows[KNOWN]])
    scored = json.loads((out / "tiny-3/run/metrics.json").read_text(encoding="utf-8"))["methods"]["fedsm"]
    assert rows[NAMED[taken["kind"]]] == pytest.approx(scored["selector_accuracy"])


def test_further_images_are_scored_where_a_kind_has_few(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = option_scores(federations.trained("tiny", 3, tiny))
    monkeypatch.setitem(federations.KINDS, "tiny", replace(federations.KINDS["tiny"], further=3))
    found = federations.trained("tiny", 3, tiny)
    assert found.further is not None
    roots = found.root, found.further
    own, further = ({image.read_bytes() for image in root.rglob("images/*.png")} for root in roots)
    assert len(further) == 18 and not own & further
    drawn = {image: image.stat().st_mtime_ns for image in found.further.rglob("*.png")}
    predictor = Predictor(load_super_model(found.run / "supermodel"))
    known = [expert_dice(*hospital_images(predictor, found.further / site))[site].mean()
             for site in predictor.super_model.sites]
    rows = option_scores(federations.trained("tiny", 3, tiny))
    assert rows[KNOWN] == pytest.approx(float(sum(known)) / 2) != before[KNOWN]
    assert drawn == {image: image.stat().st_mtime_ns for image in found.further.rglob("*.png")}  # drawn once


def test_neighbors_are_scored_every_way(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert at_neighbors.main(["--out", str(tiny), "--neighbors", "2", "tiny:3"]) == 0
    table = [line.split(" | ") for line in capsys.readouterr().out.strip().splitlines()[2:]]
    ways = json.loads((tiny / "neighbors.json").read_text(encoding="utf-8"))["tiny-3"]
    assert [line[0].removeprefix("| ") for line in table] == list(ways)
    assert table[0][3:] == ["+.0000", "0", "0 |"]
    for name in ("neighbor-1", "neighbor-2"):
        single = [way[name] for label, way in ways.items() if label not in at_neighbors.MIXED]
        assert max(single) == ways[ORACLE][name]
        limited = [way[name] for label, way in ways.items() if "below familiarity" in label]
        assert len(limited) == len(at_neighbors.LIMITS) and all(value <= ways[ORACLE][name] for value in limited)


def test_a_neighbor_is_near_its_site_and_draws_by_itself() -> None:
    for number in range(12):
        drawn, site = neighbor(number), eye_hospital(number % 6)
        assert drawn == neighbor(number)
        assert drawn.camera.tint == pytest.approx(site.camera.tint, rel=0.13) and drawn.camera != site.camera
        assert drawn.hand not in [eye_hospital(other).hand for other in range(6)]


def test_who_gains_and_who_loses() -> None:
    ways = {GLOBAL: {"a": 0.5, "b": 0.5, "c": 0.5}, "select": {"a": 0.6, "b": 0.496, "c": 0.49}}
    other = {GLOBAL: {"a": 0.5, "b": 0.5, "c": 0.5}, "select": {"a": 0.6, "b": 0.5, "c": 0.5}}
    text = at_neighbors.neighbors_markdown({("x", 0): ways, ("y", 0): other})
    assert text.splitlines()[-1] == "| select | .5287 | .5333 | .5310 | +.0310 | 1 | 1 |"


def test_hospitals_of_another_kind_have_no_neighbors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert at_neighbors.main(["--out", str(tmp_path), "prostate:1"]) == 2
    assert "take compare, demo, short, long" in capsys.readouterr().err


def test_a_kind_is_held_against_the_site_known() -> None:
    found = {("a", 0): {"x": 0.8, KNOWN: 0.7}, ("a", 1): {"x": 0.5, KNOWN: 0.6}, ("b", 0): {"x": 0.6, KNOWN: 0.7}}
    assert by_kind(found).splitlines()[-1] == "| x | +.0000 / -.1000 | -.1000 / -.1000 | -.0500 | -.1000 |"


@pytest.mark.parametrize("word", ["nowhere:1", "retina", "retina:x"])
def test_what_is_no_federation_is_refused(word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path / "out"), word]) == 2
    assert "expected KIND:SEED,SEED" in capsys.readouterr().err
