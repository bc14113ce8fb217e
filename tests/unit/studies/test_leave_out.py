"""Leaving a site out: its data never reaches training, and every mode is scored on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedsuper.cli import main
from fedsuper.config import Study
from fedsuper.errors import FedSuperError
from fedsuper.studies.compare import Comparison
from fedsuper.studies.leave_out import leave_out


@pytest.mark.slow
def test_the_left_out_site_is_scored_and_never_seen(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    study = tiny_study.model_copy(update={"rounds": 1, "routing": tiny_study.routing.model_copy(update={"epochs": 1})})
    table = leave_out(Comparison(study, tiny_root, ["fedavg", "fedsm", "local", "ttt"], [0], tmp_path), "site-2")
    manifest = json.loads((tmp_path / "without-site-2/runs/fedsm/seed-0/supermodel/supermodel.json").read_text())
    assert manifest["sites"] == ["site-1", "site-3"]
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert {name for method in metrics["methods"].values() for name in method["per_site"]} == {"site-2"}
    every_mode = {f"fedsm ({mode})" for mode in ("global", "route", "select", "oracle")}
    assert {"fedavg", "local", "ttt (global)", "ttt (ttt)"} | every_mode <= metrics["methods"].keys()
    assert metrics["methods"]["ttt (ttt)"]["mode"] == "ttt"
    assert "fedsm (route)" in table
    oracle, best_single = (metrics["methods"][f"fedsm ({mode})"]["client_avg"] for mode in ("oracle", "site:site-1"))
    assert oracle >= best_single
    gammas = json.loads((tmp_path / "unseen.json").read_text())["site-2"]["fedsm, seed 0"]
    assert gammas[0]["gamma"] == 0 and gammas[0]["chosen"].get("global", 0) == 0
    assert gammas[-1]["chosen"] == {"global": 1.0}
    assert gammas[-1]["dice"] == pytest.approx(metrics["methods"]["fedsm (global)"]["client_avg"])
    shares = [entry["chosen"].get("global", 0) for entry in gammas]
    assert shares == sorted(shares)


def test_an_unknown_site_is_one_line(tiny_root: Path, tiny_study: Study, tmp_path: Path, capsys) -> None:
    with pytest.raises(FedSuperError, match="site-9"):
        leave_out(Comparison(tiny_study, tiny_root, ["fedavg"], [0], tmp_path), "site-9")
    code = main(["compare", "--data", str(tiny_root), "--leave-out", "nobody", "--out", str(tmp_path / "x")])
    assert code == 2 and "nobody" in capsys.readouterr().err
