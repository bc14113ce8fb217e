"""The first screen says what the numbers say, as plainly when it is bad."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from fake_runs import write_comparison, write_data_root, write_super_model

from fedsuper.evaluation.evaluate import ScoredImage
from fedsuper.evaluation.image_tables import Scored
from fedsuper.evaluation.results import write_results
from fedsuper.report.chapters import read_chapters
from fedsuper.report.finding import Finding, finding_of
from fedsuper.report.page import write_report

SITES = ("amber", "birch", "cedar", "delta")


def rows_of(shift: float, noise: float = 0.0, patients: int = 12, sites: Sequence[str] = SITES) -> list[ScoredImage]:
    """Images around 0.8; every image of a method is shifted by the same, plus noise of its own."""
    base, own = np.random.default_rng(0), np.random.default_rng([1, round(1000 * abs(shift))])
    return [
        ScoredImage(site, f"i{n}", f"c{n}", {"disc": 0.8 + 0.02 * base.standard_normal() + shift + value}, "global")
        for site in sites
        for n, value in enumerate(noise * own.standard_normal(patients))
    ]


def find(tmp_path: Path, methods: Mapping[str, list[ScoredImage]]) -> Finding:
    runs = [Scored(method, 0, rows) for method, rows in methods.items()]
    write_results(tmp_path / "run", write_data_root(tmp_path / "data"), runs)
    (chapter,) = read_chapters([tmp_path / "run"])
    return finding_of(chapter)


def words(finding: Finding) -> str:
    return "".join(part.text for part in finding.lead)


def test_a_gain_a_loss_and_a_draw_in_one_sentence(tmp_path: Path) -> None:
    found = find(tmp_path, {
        "centralized": rows_of(0.05, 0.005), "local": rows_of(0.0301, 0.06), "fedavg": rows_of(0.0, 0.005),
        "fedsm": rows_of(0.03, 0.005),
    })  # fmt: skip
    assert found.title == (
        "FedSM beats FedAvg at 4 of 4 hospitals, but loses to pooled training at 4 of 4 "
        "and cannot be told apart from training alone"
    )
    assert [hospital.site for hospital in found.hospitals] == list(SITES)
    verdicts = {verdict.baseline: verdict.difference.verdict for verdict in found.hospitals[0].verdicts}
    assert verdicts["FedAvg"] == "better" and verdicts["pooled training"] == "worse"


def test_the_title_counts_no_more_clear_wins_than_the_cards(tmp_path: Path) -> None:
    sure, unsure = SITES[:3], SITES[3:]
    fedavg = [*rows_of(0.0, 0.005, sites=sure), *rows_of(0.0, 0.06, sites=unsure)]
    fedsm = [*rows_of(0.03, 0.005, sites=sure), *rows_of(0.0302, 0.06, sites=unsure)]
    found = find(tmp_path, {"fedavg": fedavg, "fedsm": fedsm})
    cards = [hospital.verdicts[0].difference for hospital in found.hospitals]
    higher, clear = sum(card.mean > 0 for card in cards), sum(card.verdict == "better" for card in cards)
    assert (higher, clear) == (4, 3)
    assert found.title == "FedSM beats FedAvg at 4 of 4 hospitals (3 clearly)"


def test_bad_news_are_told_as_plainly(tmp_path: Path) -> None:
    found = find(tmp_path, {"fedavg": rows_of(0.05), "local": rows_of(0.1, 0.01), "fedsm": rows_of(0, 0.01)})
    assert found.title == "FedSM loses to FedAvg at 4 of 4 hospitals and training alone at 4 of 4"


def test_the_row_that_is_higher_still_is_named(tmp_path: Path) -> None:
    methods = {"fedavg": rows_of(0.0), "fedsm": rows_of(0.02, 0.001), "local+rounds=9": rows_of(0.05)}
    assert "Highest of all rows: Local, rounds=9, " in words(find(tmp_path, methods))


def test_a_method_that_changes_nothing_says_so(tmp_path: Path) -> None:
    found = find(tmp_path, {"fedavg": rows_of(0.0), "fedprox": rows_of(0.0)})
    assert found.title == "FedProx gives the same masks as FedAvg"
    assert "FedProx has the same score as FedAvg on every image." in found.caveats


def test_too_few_patients_get_no_verdict(tmp_path: Path) -> None:
    few = [*rows_of(0.0, sites=SITES[:2]), *rows_of(0.0, patients=3, sites=["small"])]
    more = [*rows_of(0.05, 0.01, sites=SITES[:2]), *rows_of(0.05, 0.01, patients=3, sites=["small"])]
    found = find(tmp_path, {"fedavg": few, "fedsm": more})
    assert "small has fewer than 6 test patients: too few for a verdict there." in found.caveats
    assert found.hospitals[-1].verdicts[0].difference.verdict == "few"


@pytest.mark.parametrize(("gamma", "chosen", "words"), [(1.0, "global", "validation chose γ = 1"),
                                                        (0.9, "global", "sent every test image to the global model"),
                                                        (0.5, "amber", None)])  # fmt: skip
def test_a_selector_that_is_never_used_is_not_praised(
    tmp_path: Path, gamma: float, chosen: str, words: str | None
) -> None:
    q = dict.fromkeys(SITES, 0.25)
    rows = [ScoredImage(r.site, r.image, r.case, r.dice, chosen, r.site, gamma, q) for r in rows_of(0.1)]
    write_super_model(tmp_path / "run" / "supermodel", "fedsm", sites=SITES)
    manifest = json.loads((tmp_path / "run" / "supermodel" / "supermodel.json").read_text())
    (tmp_path / "run" / "supermodel" / "supermodel.json").write_text(json.dumps(manifest | {"gamma": gamma}))
    found = find(tmp_path, {"fedsm": rows})
    told = [line for line in found.caveats if "selector" in line]
    assert (words in told[0]) if words else not told
    write_report([tmp_path / "run"], tmp_path / "report.html")
    section = (tmp_path / "report.html").read_text().partition('id="part-1-selector-fedsm"')[2]
    assert ('class="caveat"' in section) == bool(words)


def test_every_figure_of_the_first_screen_is_in_metrics_json(tmp_path: Path) -> None:
    run = write_comparison(tmp_path / "run")
    write_report([run], tmp_path / "report.html")
    head = (tmp_path / "report.html").read_text().partition("<header>")[2].partition("</header>")[0]
    metrics = json.loads((run / "metrics.json").read_text())
    methods = metrics["methods"]
    averages = [[found["client_avg"], *found["ci95"]["client_avg"]] for found in methods.values()]
    known = {f"{value:.3f}" for values in averages for value in values}
    known |= {f"{scores['mean']:.3f}" for scores in methods["fedsm"]["per_site"].values()}
    away = [v for a, by in methods["local"]["site_by_model"].items() for b, v in by.items() if a != b]
    known.add(f"{np.mean(away):.3f}")
    for pair in (pair for pair in metrics["paired"] if pair["a"] == "fedsm"):
        for place in pair["per_site"].values():
            known |= {f"{abs(place[key]):.3f}" for key in ("mean", "low", "high")}
    told = re.findall(r"\d\.\d{3}", re.sub(r"<svg.*?</svg>", "", head, flags=re.DOTALL))
    assert len(told) > 30
    assert set(told) <= known
    beaten = next(pair for pair in metrics["paired"] if (pair["a"], pair["b"]) == ("fedsm", "fedavg"))
    count = sum(place["mean"] > 0 for place in beaten["per_site"].values())
    clear = sum(place["low"] > 0 and place["cases"] >= 6 for place in beaten["per_site"].values())
    words = "" if clear == count else f" ({clear} clearly)"
    assert f"<h1>FedSM beats FedAvg at {count} of 3 hospitals{words}" in head
