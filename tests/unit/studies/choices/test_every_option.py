"""Every selector and gate of a trained super model on test images, beside what could have been chosen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from rehearsal import small_study

from fedsuper.core.mode import GLOBAL
from fedsuper.core.validated.selection_choice import AUTO, options_of
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.inference.artifact import load_super_model
from fedsuper.studies.selection import federations
from fedsuper.studies.selection.every_option import by_kind, main
from fedsuper.studies.selection.scored_options import KNOWN, NAMED, ORACLE, TAKEN


def test_a_federation_under_every_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(small_study("fedsm").to_json()), encoding="utf-8")
    kind = federations.Kind(lambda root, seed: write_retina(root, sites=2, images=40, size=48, seed=seed),
                            tmp_path / "study.yaml", ("rounds=2",), split_by_seed=True)
    monkeypatch.setitem(federations.KINDS, "tiny", kind)
    out = tmp_path / "out"
    assert main(["--out", str(out), "tiny:3"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "|  | tiny 3 | mean |"
    rows = json.loads((out / "options.json").read_text(encoding="utf-8"))["tiny-3"]
    options = {option.name: rows[option.name] for option in options_of(AUTO, AUTO)}
    taken = load_super_model(out / "tiny-3/run/runs/fedsm/seed-3/supermodel").manifest["selection"]
    assert rows[TAKEN] == options[f"{taken['kind']}/{taken['gate']}"]
    assert all(value <= rows[ORACLE] + 1e-9 for value in [*options.values(), rows[GLOBAL], rows[KNOWN]])
    scored = json.loads((out / "tiny-3/run/metrics.json").read_text(encoding="utf-8"))["methods"]["fedsm"]
    assert rows[NAMED[taken["kind"]]] == pytest.approx(scored["selector_accuracy"])


def test_a_kind_is_held_against_the_site_known() -> None:
    found = {("a", 0): {"x": 0.8, KNOWN: 0.7}, ("a", 1): {"x": 0.5, KNOWN: 0.6}, ("b", 0): {"x": 0.6, KNOWN: 0.7}}
    assert by_kind(found).splitlines()[-1] == "| x | +.0000 / -.1000 | -.1000 / -.1000 | -.0500 | -.1000 |"


@pytest.mark.parametrize("word", ["nowhere:1", "retina", "retina:x"])
def test_what_is_no_federation_is_refused(word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path / "out"), word]) == 2
    assert "expected KIND:SEED,SEED" in capsys.readouterr().err
