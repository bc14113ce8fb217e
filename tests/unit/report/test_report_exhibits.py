"""Sections that tell of files a run may hold: costs, calibration, thresholds, settings, routing, sites inside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_runs import SITES, write_comparison, write_run

from fedsuper.evaluation.run_files.names import INSIDE, ROUTING
from fedsuper.evaluation.run_files.tables import Threshold
from fedsuper.evaluation.selection import calibration
from fedsuper.federation.ledger.round_costs import RoundCost, add_round
from fedsuper.federation.ledger.traffic import Traffic
from fedsuper.report.knobs import lines_by_knob, parse_row
from fedsuper.report.page import write_report
from fedsuper.report.sections.scores.test_time_routing import mean_curve
from fedsuper.report.sections.scores.unseen import best_threshold, mean_shares


def section(page: Path, anchor: str) -> str:
    return page.read_text(encoding="utf-8").partition(f'id="part-1-{anchor}"')[2].partition("</section>")[0]


def test_traffic_and_time_are_told_by_method(tmp_path: Path) -> None:
    run = write_comparison(tmp_path / "run", seeds=[0], examples=False)
    for number in (1, 2):
        traffic = Traffic(dict.fromkeys(SITES, 3_000_000), dict.fromkeys(SITES, 1_500_000))
        add_round(run / "runs" / "fedsm" / "seed-0", number, RoundCost(traffic, 2.0 * number))
    write_report([run], tmp_path / "report.html")
    told = section(tmp_path / "report.html", "costs")
    assert "<td>3.00</td><td>1.50</td><td>3.00</td><td>–</td><td>0.1</td>" in told
    assert "FedAvg" not in told  # nothing was written down of it


def test_calibration_is_the_gap_between_word_and_deed() -> None:
    found = calibration([0.95, 0.95, 0.95, 0.95, 0.55], [True, True, True, False, True])
    assert [one["n"] for one in found["bins"]] == [1, 4]
    assert found["bins"][1]["accuracy"] == 0.75
    assert found["error"] == pytest.approx((4 * 0.2 + 0.45) / 5)
    assert calibration([1.0, 1.0], [True, True])["error"] == 0


def test_the_calibration_is_drawn_for_a_selector(tmp_path: Path) -> None:
    write_report([write_run(tmp_path / "run", "fedsm")], tmp_path / "report.html")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())["methods"]["fedsm"]["selector"]
    assert f"mean gap {metrics['calibration']['error']:.3f}" in section(tmp_path / "report.html", "selector-fedsm")


def test_the_best_threshold_is_the_smallest_of_equals_and_its_shares_are_means() -> None:
    points = [Threshold(gamma, dice, {"a": 1 - gamma, "global": gamma}, False)
              for gamma, dice in ((0.0, 0.5), (0.5, 0.8), (0.9, 0.8), (1.0, 0.7))]  # fmt: skip
    best = best_threshold(points)
    assert best.gamma == 0.5
    assert mean_shares([best, points[0]]) == {"a": 0.75, "global": 0.25}


def test_rows_of_one_knob_are_a_line_each() -> None:
    assert parse_row("iop-fl+tau=0.1+rounds=3 (route)") == ("iop-fl", {"tau": "0.1", "rounds": "3"}, " (route)")
    rows = {"iop-fl+tau=0.9": 3.0, "iop-fl+tau=0.1": 1.0, "iop-fl+tau=0.1 (route)": 2.0, "fedsm+personal=ft": 0.0,
            "fedavg": 5.0}  # fmt: skip
    assert lines_by_knob(rows) == {"tau": {"IOP-FL": [(0.1, 1.0), (0.9, 3.0)]}}


def test_a_curve_over_sites_spreads_over_sites() -> None:
    def points(dice: float) -> dict[str, list[dict[str, float]]]:
        return {"points": [{"seconds": 1.0, "dice": dice, "spread": 0.3}]}

    assert mean_curve({"a": points(0.4), "b": points(0.6)})[0] == pytest.approx(
        {"seconds": 1.0, "dice": 0.5, "spread": 0.1}
    )
    assert mean_curve({"a": points(0.4)})[0]["spread"] == 0.3


def test_what_was_not_asked_for_has_no_section(comparison_page: str) -> None:
    for anchor in ("inside-count", "routing", "inversion", "by-setting", "costs", "patients"):
        assert f'id="part-1-{anchor}' not in comparison_page
    assert INSIDE not in comparison_page and ROUTING not in comparison_page
