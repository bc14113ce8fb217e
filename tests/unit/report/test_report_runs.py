"""Runs of every kind in a report: alone, together, unfinished, left over, with sites left out in turn."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

from fake_runs import SITES, scored, write_comparison, write_data_root, write_run, write_super_model
from report_pages import Page, page_of

from fedsuper.evaluation.image_tables import Scored
from fedsuper.evaluation.metrics.boundaries import Boundary
from fedsuper.evaluation.metrics.case_scores import Detail
from fedsuper.evaluation.metrics.measurements import Measured
from fedsuper.evaluation.results import write_results


def test_one_run_without_examples(tmp_path: Path) -> None:
    text = page_of([write_run(tmp_path / "run", "fedsm")], tmp_path / "report.html")
    assert re.search(r"<h1>FedSM reaches a mean Dice of 0\.\d{3} at 3 hospitals</h1>", text)
    assert 'id="part-1-selector-fedsm"' in text
    assert 'id="part-1-statistics"' not in text
    assert 'id="part-1-matrix"' not in text
    assert "No example images were saved" in text


def test_several_runs_on_the_same_data_share_a_table_and_statistics(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / name, name.split("-")[0], seed)
        for seed, name in enumerate(("fedavg", "fedsm-a", "fedsm-b"))
    ]
    text = page_of(runs, tmp_path / "report.html")
    assert text.count("<article") == 1
    for label in ("FedAvg", "FedSM (fedsm-a)", "FedSM (fedsm-b)"):
        assert f"</i>{label}</th>" in text
    assert 'id="part-1-statistics"' in text
    assert Page(text).open == []


def test_runs_on_other_sites_get_a_chapter_of_their_own(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "one", "fedavg"), write_run(tmp_path / "two", "fedavg", sites=["xenon", "yttrium"])]
    text = page_of(runs, tmp_path / "report.html")
    page = Page(text)
    assert text.count("<article") == 2
    assert len(page.ids) == len(set(page.ids))


def test_a_run_that_was_not_scored_yet(tmp_path: Path) -> None:
    write_super_model(tmp_path / "run" / "supermodel", "fedsm")
    text = page_of([tmp_path / "run"], tmp_path / "report.html")
    assert "not scored yet" in text
    assert "No test scores yet: FedSM." in text
    assert 'id="part-1-training"' in text
    assert 'id="part-1-results"' not in text


def test_scores_told_by_sites_stand_in_for_metrics(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "supermodel"
    write_super_model(folder, "fedavg")
    manifest = json.loads((folder / "supermodel.json").read_text())
    manifest["metrics"]["test"] = {
        site: {site: {"disc": 0.8, "cup": 0.6 + 0.1 * place, "mean": 0.7 + 0.05 * place, "n": 10 * (place + 1)}}
        for place, site in enumerate(SITES)
    }
    (folder / "supermodel.json").write_text(json.dumps(manifest))
    text = page_of([tmp_path / "run"], tmp_path / "report.html")
    assert ">0.750<" in text  # the mean over sites
    assert f">{(0.7 * 10 + 0.75 * 20 + 0.8 * 30) / 60:.3f}<" in text


def test_scores_without_super_models(tmp_path: Path) -> None:
    write_results(tmp_path / "run", write_data_root(tmp_path / "data"), [scored("fedavg", 0)])
    text = page_of([tmp_path / "run"], tmp_path / "report.html")
    assert 'id="part-1-results"' in text
    assert "No training history found." in text


def test_a_comparison_under_way_shows_what_is_finished(tmp_path: Path, comparison: Path) -> None:
    shutil.copytree(comparison / "runs" / "fedavg", tmp_path / "run" / "runs" / "fedavg")
    assert "FedAvg trained at 3 hospitals" in page_of([tmp_path / "run"], tmp_path / "report.html")


def test_runs_left_over_from_an_earlier_comparison_are_ignored(tmp_path: Path) -> None:
    run = write_comparison(tmp_path / "run", ("fedavg",), (0,), examples=False)
    write_super_model(run / "runs" / "fedsm" / "seed-0" / "supermodel", "fedsm")
    assert "FedSM" not in page_of([run], tmp_path / "report.html")


def leave_out_run(folder: Path) -> Path:
    """Every site left out in turn: FedSM in three modes, one of them a bound, and one site's model at the others."""
    rows = {
        "fedsm (select)": scored("fedavg", 0).rows,
        "fedsm (oracle)": scored("centralized", 0).rows,
        "fedsm (site:amber)": [row for row in scored("fedsm", 0).rows if row.site != "amber"],
    }
    runs = [
        Scored(method, 0, [replace(row, own=None, probabilities={}) for row in found]) for method, found in rows.items()
    ]
    write_results(folder, write_data_root(folder.parent / "data"), runs, "all")
    others = {site: [name for name in SITES if name != site] for site in SITES}
    unseen = {
        site: {
            f"fedsm, seed {seed}": [
                {"gamma": 0.0, "dice": 0.6 + seed / 10, "chosen": {others[site][seed]: 1.0}, "validated": False},
                {"gamma": 0.9, "dice": 0.8, "chosen": {"global": 1.0}, "validated": seed == 0},
                {"gamma": 1.0, "dice": 0.75, "chosen": {"global": 1.0}, "validated": seed == 1},
            ]
            for seed in (0, 1)
        }
        for site in SITES
    }
    (folder / "unseen.json").write_text(json.dumps(unseen))
    return folder


def test_sites_left_out_in_turn(tmp_path: Path) -> None:
    text = page_of([leave_out_run(tmp_path / "run")], tmp_path / "report.html")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())["methods"]
    assert "3 unseen hospitals" in text
    lead = text[text.index('class="lead"') : text.index("</header>")]
    assert (
        f"<strong>{metrics['fedsm (select)']['client_avg']:.3f}</strong>" in lead
    )  # not the bound, not the partial one
    partial = metrics["fedsm (site:amber)"]["client_avg"]
    assert partial > metrics["fedsm (select)"]["client_avg"]
    assert f'title="{partial:.3f} over 2 sites only"' in text
    section = text[text.index('id="part-1-unseen"') : text.index('id="part-1-run"')]
    assert section.count("<td>0.650</td><td>0.775</td><td>0.750</td>") == len(SITES)
    assert re.findall(r">(0\.50)</text>", section) == ["0.50"] * 6


def test_a_left_out_run_does_not_share_a_table_with_one_that_saw_the_sites(tmp_path: Path) -> None:
    runs = [leave_out_run(tmp_path / "out"), write_run(tmp_path / "in", "fedavg")]
    assert page_of(runs, tmp_path / "report.html").count("<article") == 2


def test_the_map_of_features_belongs_to_the_method_with_a_selector(tmp_path: Path) -> None:
    run = write_comparison(tmp_path / "run", ("fedavg", "fedsm"), (0,), examples=False)
    points = [f"fedsm,{site},i{n},{n},{n}" for site in SITES for n in range(3)]
    (run / "features.csv").write_text("\n".join(["method,site,image,x,y", *points]) + "\n")
    text = page_of([run], tmp_path / "report.html")
    assert text.count("What it sees") == 1
    assert "Selector of FedAvg" not in text


def test_a_closed_form_selector_that_a_method_does_not_use_gets_no_section(tmp_path: Path) -> None:
    run = write_comparison(tmp_path / "run", ("fedavg", "fedsm"), (0,), examples=False)
    metrics = json.loads((run / "metrics.json").read_text())
    found = metrics["methods"]["fedsm"]["selector"]
    metrics["methods"]["fedavg"] |= {"selector": found, "mode": "global"}
    (run / "metrics.json").write_text(json.dumps(metrics))
    text = page_of([run], tmp_path / "report.html")
    assert "Selector of FedSM" in text and "Selector of FedAvg" not in text


def test_boundaries_and_measurements_are_told(tmp_path: Path) -> None:
    runs = []
    for method in ("fedavg", "fedsm"):
        far = 4.0 if method == "fedavg" else 2.5
        detail = Detail(
            {region: Boundary(far, far / 2, 0.75) for region in ("disc", "cup")},
            {"vertical_cup_to_disc_ratio": Measured(0.5, 0.3), "disc_area_px": Measured(900.0, 1000.0)},
            "px",
        )
        runs.append(Scored(method, 0, [replace(row, detail=detail) for row in scored(method, 0).rows]))
    write_results(tmp_path / "run", write_data_root(tmp_path / "data"), runs)
    text = page_of([tmp_path / "run"], tmp_path / "report.html")
    section = text.partition('id="part-1-boundaries"')[2].partition("</section>")[0]
    assert section.count("<td>2.50</td><td>1.25</td><td>0.750</td>") == 2  # disc and cup
    assert "HD95 (px)" in section and "1% of the longer side" in section
    section = text.partition('id="part-1-measurements"')[2].partition("</section>")[0]
    assert "Vertical cup to disc ratio" in section and "<td>0.200</td><td>+0.200<small>± 0.000</small></td>" in section
    assert "Disc area (pixels)" in section and "<td>100.0</td><td>−100.0" in section
    lines = (tmp_path / "run" / "measurements.csv").read_text().splitlines()
    assert lines[1] == "fedavg,0,amber,image00,case0,vertical_cup_to_disc_ratio,0.5,0.3,0.2"
    assert "disc_hd95" in (tmp_path / "run" / "per_image.csv").read_text().splitlines()[0]


def test_a_hospital_outside_is_told_in_every_mode(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "fedsm")

    def mode(mean: float) -> dict:
        gain = {"mean": mean - 0.8, "ci95": [mean - 0.81, mean - 0.79], "over": "global"}
        return {"mean": mean, "n": 30, "ci95": [mean - 0.1, mean + 0.1], "seconds_per_image": 0.5, "gain": gain}

    plain = {key: value for key, value in mode(0.8).items() if key != "gain"}
    modes = {"global": plain, "route": mode(0.85), "site:amber": mode(0.95), "oracle": mode(0.97)}
    modes["tent"] = {"problem": "x"}
    (run / "outside.json").write_text(json.dumps({"seeds": [0], "modes": modes}))
    section = page_of([run], tmp_path / "report.html").partition('id="part-1-outside"')[2].partition("</section>")[0]
    assert "Highest of what it could choose without a label: route, Dice 0.850 (global model 0.800)" in section
    assert "known only from its label, reaches 0.970" in section
    assert "Not offered by this super model: tent: x." in section


def test_what_each_site_was_handed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "fedsm")
    path = run / "supermodel" / "supermodel.json"
    manifest = json.loads(path.read_text())
    manifest["metrics"]["validation"] |= {f"personal/{site}": {"score": 0.9, "round": 7.0} for site in SITES}
    choice = {"taken": "fine-tuned", "why": "clearly better here", "dice": {"global": 0.8, "fine-tuned": 0.91}}
    manifest["chosen"] = {SITES[0]: choice}
    path.write_text(json.dumps(manifest))
    shares = json.loads((run / "metrics.json").read_text())["methods"]["fedsm"]["selected"]
    section = page_of([run], tmp_path / "report.html").partition('id="part-1-handed"')[2].partition("</section>")[0]
    for site in SITES:
        assert f"<td>0.900</td><td>7</td><td>{shares[site][site]:.0%}</td>" in section
    why = '<td title="clearly better here">'
    assert f"{SITES[0]}</th>{why}fine-tuned model<small>global 0.800, fine-tuned 0.910</small></td>" in section
    assert f"{SITES[1]}</th><td>personalized model</td>" in section


def test_a_run_with_noise_states_its_epsilon(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "fedsm")
    path = run / "supermodel" / "supermodel.json"
    told = {"epsilon": {"amber": 7.25, "birch": 3.5}, "delta": 1e-5, "protects": "all data of a site"}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"privacy": told}))
    text = page_of([run], tmp_path / "report.html")
    assert "ε (δ)" in text and "7.25 (1e-05), all data of a site" in text
    assert "ε (δ)" not in page_of([write_run(tmp_path / "plain", "fedsm")], tmp_path / "plain.html")
