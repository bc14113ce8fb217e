"""The page: self-contained, true to the numbers, safe against hostile names, torn inputs told in one line."""

import csv
import json
import re
from pathlib import Path

import pytest
from fake_runs import SITES, write_comparison, write_run
from report_pages import Page, page_of

from fedsuper.errors import FedSuperError
from fedsuper.report.page import write_figures, write_report


def test_it_is_one_file_that_loads_nothing(comparison_page: str) -> None:
    page = Page(comparison_page)
    assert not re.search(r"https?://|//[a-z]+\.", comparison_page)
    assert all(target.startswith(("#", "data:image/png;base64,", "data:text/csv;base64,")) for target in page.targets)
    assert not {"link", "iframe", "object"} & set(page.tags)
    assert page.tags.count("script") == 1
    assert "url(" not in re.sub(r"url\(#", "", comparison_page)
    assert len(comparison_page) < 5_000_000


def test_it_is_well_formed_and_accessible(comparison_page: str) -> None:
    page = Page(comparison_page)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    anchors = {target[1:] for target in page.targets if target.startswith("#")}
    assert anchors <= set(page.ids)
    assert page.unnamed == []
    assert page.tags.count("h1") == 1


def test_it_holds_the_numbers_of_metrics_json(comparison: Path, comparison_page: str) -> None:
    metrics = json.loads((comparison / "metrics.json").read_text())
    table = comparison_page[comparison_page.index("<h2>Results") : comparison_page.index("Is the difference real?")]
    for scores in metrics["methods"].values():
        for value in (
            scores["client_avg"],
            scores["global"],
            *(v for by in scores["per_site"].values() for v in by.values()),
        ):
            assert f">{value:.3f}<" in table
        assert f"± {scores['std']['client_avg']:.3f}" in table
    best = metrics["methods"]["fedsm"]
    lead = comparison_page[comparison_page.index('class="lead"') : comparison_page.index("</header>")]
    assert f"<strong>{best['client_avg']:.3f}</strong>" in lead
    for baseline in ("fedavg", "local", "centralized"):
        assert f"<strong>{metrics['methods'][baseline]['client_avg']:.3f}</strong>" in lead


def test_bold_covers_every_row(comparison_page: str) -> None:
    rows = re.findall(
        r"<tr( class=\"reference\")?><th scope=\"row\"><i[^>]*></i>(\w+)</th>(.*?)</tr>", comparison_page, re.S
    )
    marked = {name: len(re.findall(r'class="[^"]*best', cells)) for _, name, cells in rows if "title=" in cells}
    assert marked == {"FedAvg": 0, "FedSM": 0, "Centralized": len(SITES) + 3, "Local": 0}


def test_every_section_is_there(comparison_page: str) -> None:
    for anchor in ("results", "statistics", "images", "training", "matrix", "selector-fedsm", "examples", "run"):
        assert f'id="part-1-{anchor}"' in comparison_page
    assert "γ = 0.7" in comparison_page
    assert "method: fedsm" in comparison_page
    assert "Ranked by Dice; shown: the median." in comparison_page


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    sites = ['<script>alert("x")</script>', "a$b$c & \"d'", "</svg><img src=x onerror=alert(1)>"]
    text = page_of([write_comparison(tmp_path / "run", ("fedavg", "fedsm"), (0,), sites)], tmp_path / "report.html")
    page = Page(text)
    assert page.tags.count("script") == 1  # the page's own
    assert "img" not in page.tags
    assert page.open == []
    words = "".join(page.words)
    for site in sites:
        assert site in words
    assert "a$b$c" in words


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("metrics.json", '{"methods": {"fedsm"', "torn"),
        ("metrics.json", "[]", "expected an object"),
        ("metrics.json", '{"methods": {"fedsm": {"client_avg": 1}}}', "does not map methods to scores"),
        ("per_image.csv", "method,seed,site\nfedsm,0,amber\n", "has no column image"),
        ("per_image.csv", "method,seed,site,image,case,mean,model\nfedsm,0,amb", "row 2 is torn"),
        ("per_image.csv", "method,seed,site,image,case,mean,model\nfedsm,0,a,i,c,x,m\n", "not a number"),
        ("supermodel/supermodel.json", "{", "not JSON"),
        ("study.yaml", "a: [", "torn"),
        ("examples/index.json", '{"rule": "r", "regions": [], "examples": [{}]}', "torn"),
        ("examples/000-image.png", None, "cannot be read"),
        ("examples/000-true-disc.png", "not a picture", "not a PNG"),
        ("features.csv", "method,site,image,x,y\nfedsm,A,i,1\n", "row 2 is torn"),
        ("unseen.json", '{"amber": {"fedsm, seed 0": [{"gamma": 0.5}]}}', "torn"),
    ],
)
def test_torn_inputs_are_one_line(tmp_path: Path, file: str, content: str | None, words: str) -> None:
    run = write_run(tmp_path / "run", "fedsm", examples=True)
    path = run / file
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(FedSuperError) as caught:
        write_report([run], tmp_path / "report.html")
    message = str(caught.value)
    assert words in message
    assert str(path) in message
    assert "\n" not in message
    assert not (tmp_path / "report.html").exists()


def test_examples_cannot_name_files_outside_their_folder(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "fedsm", examples=True)
    index = json.loads((run / "examples" / "index.json").read_text())
    index["examples"][0]["picture"] = "../study.yaml"
    (run / "examples" / "index.json").write_text(json.dumps(index))
    with pytest.raises(FedSuperError, match="plain file name"):
        write_report([run], tmp_path / "report.html")


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_that_is_no_run(tmp_path: Path, exists: bool) -> None:
    if exists:
        (tmp_path / "run").mkdir()
    with pytest.raises(FedSuperError, match="neither|no such folder"):
        write_report([tmp_path / "run"], tmp_path / "report.html")


def test_two_reports_of_a_run_are_the_same_bytes(comparison: Path, comparison_page: str, tmp_path: Path) -> None:
    assert page_of([comparison], tmp_path / "again.html") == comparison_page


def test_figures_can_be_saved_as_files(tmp_path: Path) -> None:
    saved = write_figures([write_run(tmp_path / "run", "fedsm", examples=True)], tmp_path / "figures")
    names = {path.stem for path in saved}
    assert names == {
        "training",
        "single-images",
        "fedsm-confusion",
        "fedsm-calibration",
        "fedsm-selector-rounds",
        "fedsm-gamma",
        "fedsm-frequencies",
        "examples",
    }
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in saved)


def test_single_images_are_told_by_name_and_worst_first(comparison: Path, comparison_page: str) -> None:
    section = comparison_page.partition('id="part-1-images"')[2].partition("</section>")[0]
    collected: dict[str, list[float]] = {}
    for row in csv.DictReader((comparison / "per_image.csv").open()):
        if row["method"] == "fedsm":
            collected.setdefault(f"{row['site']}, {row['image']}", []).append(float(row["mean"]))
    means = sorted((sum(values) / len(values), name) for name, values in collected.items())
    told = re.findall(r'<th scope="row">([^<]+)</th><td>([\d.]+)</td>', section)
    assert told == [(name, f"{value:.3f}") for value, name in means[: len(told)]]
    assert len(told) == 8
