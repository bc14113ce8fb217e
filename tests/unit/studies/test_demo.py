"""The demonstration scores the hospital that took no part, and its report tells of it."""

from __future__ import annotations

import json
from pathlib import Path

from fedsuper.config import Study
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.report.page import write_report
from fedsuper.studies.demo import NOTE, say_what_it_is, score_outside_hospital
from fedsuper.studies.run import run_study
from fedsuper.studies.score import score_run


def test_the_hospital_outside_is_scored_in_every_mode_and_shown(tmp_path: Path, tiny_study: Study) -> None:
    root, run = tmp_path / "data", tmp_path / "run"
    write_retina(root, sites=2, images=48, size=32, seed=0, outside=True, difficulty="easy")
    routing = tiny_study.routing.model_copy(update={"epochs": 1, "radius": 2})
    run_study(tiny_study.model_copy(update={"rounds": 1, "routing": routing}), root, run, "local")
    score_run(run, root)
    score_outside_hospital(run, root.with_name("data-outside"), 0, steps=10)
    told = json.loads((run / "outside.json").read_text())
    scored = {mode: entry for mode, entry in told["modes"].items() if "mean" in entry}
    labeled = {"3 labels", "5 labels"}
    assert {"global", "select", "route", "oracle", "site:site-1", *labeled} <= set(scored)
    images = len(list((tmp_path / "data-outside" / "outside" / "images").iterdir()))
    assert {entry["n"] for entry in scored.values()} == {images - 5}, "no image that a row was trained on"
    assert scored["oracle"]["mean"] >= max(scored[mode]["mean"] for mode in scored if mode not in labeled) - 1e-9
    assert all(entry["gain"]["over"] == "global" for mode, entry in scored.items() if mode != "global")
    say_what_it_is(run)
    write_report([run], tmp_path / "report.html")
    assert "no evidence for a method" in NOTE and "no evidence for a method" in (tmp_path / "report.html").read_text()
    section = (tmp_path / "report.html").read_text().partition('id="part-1-outside"')[2].partition("</section>")[0]
    for mode in scored:
        assert f"{scored[mode]['mean']:.3f}" in section
    for brought in ("no image", "unlabeled images", "with 5 labels"):
        assert brought in section
