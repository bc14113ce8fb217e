"""metrics.json and per_image.csv: every mean recomputed by hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from super_models import constant_super_model, random_super_model

from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import CaseStore
from fedsuper.evaluation.evaluate import ScoredImage
from fedsuper.evaluation.image_tables import Scored, per_image_csv
from fedsuper.evaluation.results import merge_results, score, write_results
from fedsuper.evaluation.selection import selection_frequencies, selector_report
from fedsuper.evaluation.text_tables import results_table
from fedsuper.train.device import Compute

CPU = Compute(torch.device("cpu"))


def image(site: str, name: str, disc: float, cup: float, chosen: str = "global", **rest: object) -> ScoredImage:
    return ScoredImage(site, name, name, {"disc": disc, "cup": cup}, chosen, **rest)  # type: ignore[arg-type]


ROWS = [image("A", "1", 0.9, 0.7), image("A", "2", 0.7, 0.5), image("A", "3", 0.8, 0.6), image("B", "1", 0.4, 0.2)]


def test_one_seed_by_hand() -> None:
    method = merge_results([Scored("fedavg", 3, ROWS)], "eyes")["methods"]["fedavg"]
    assert method["per_site"]["A"] == pytest.approx({"disc": 0.8, "cup": 0.6, "mean": 0.7})
    assert method["per_site"]["B"] == pytest.approx({"disc": 0.4, "cup": 0.2, "mean": 0.3})
    assert method["client_avg"] == pytest.approx(0.5), "sites count alike"
    assert method["global"] == pytest.approx((0.8 + 0.6 + 0.7 + 0.3) / 4), "images count alike"
    assert method["n"] == 4 and method["images"] == {"A": 3, "B": 1}


def test_seeds_are_averaged_and_their_spread_is_kept() -> None:
    worse = [image(row.site, row.image, row.dice["disc"] - 0.1, row.dice["cup"] - 0.1) for row in ROWS]
    metrics = merge_results([Scored("m", 1, worse), Scored("m", 0, ROWS)], "eyes")
    method = metrics["methods"]["m"]
    assert metrics["seeds"] == [0, 1] and list(method["per_seed"]) == ["0", "1"]
    assert method["client_avg"] == pytest.approx(0.45) and method["std"]["client_avg"] == pytest.approx(0.05 * 2**0.5)
    assert method["per_site"]["A"]["disc"] == pytest.approx(0.75)
    assert method["per_seed"]["0"]["client_avg"] == pytest.approx(0.5)
    assert method["n"] == 4, "the same four images, whatever the number of seeds"
    low, high = method["ci95"]["global"]
    assert low <= method["global"] <= high


def test_methods_are_held_against_the_baselines() -> None:
    better = [image(row.site, row.image, row.dice["disc"] + 0.05, row.dice["cup"] + 0.05) for row in ROWS]
    runs = [Scored("new", 0, better), Scored("fedavg", 0, ROWS), Scored("local", 0, ROWS)]
    pairs = {(pair["a"], pair["b"]): pair for pair in merge_results(runs, "eyes")["paired"]}
    assert set(pairs) == {("new", "fedavg"), ("new", "local"), ("local", "fedavg"), ("fedavg", "local")}
    assert pairs["new", "fedavg"]["overall"]["mean"] == pytest.approx(0.05)
    assert pairs["local", "fedavg"]["p"] == 1.0
    assert all(pair["p_holm"] >= pair["p"] and pair["overall"]["cases"] == 4 for pair in pairs.values())


def test_notes_are_averaged_over_seeds() -> None:
    runs = [Scored("local", seed, ROWS, notes={"site_by_model": {"A": {"B": value}}, "kind": "x"})
            for seed, value in ((0, 0.2), (1, 0.4))]
    method = merge_results(runs, "eyes")["methods"]["local"]
    assert method["site_by_model"]["A"]["B"] == pytest.approx(0.3) and method["kind"] == "x"
    assert method["per_seed"]["1"]["site_by_model"] == {"A": {"B": 0.4}}


def test_nothing_to_merge() -> None:
    with pytest.raises(FedSuperError, match="no finished run"):
        merge_results([], "eyes")


def test_the_selector_is_judged_per_site() -> None:
    q = {"A": 0.8, "B": 0.2}
    rows = [image("A", str(n), 1, 1, own="A", probabilities=q) for n in range(9)]
    rows += [image("B", "0", 1, 1, own="B", probabilities=q), image("C", "0", 1, 1, own=None, probabilities=q)]
    report = selector_report(rows)
    assert report is not None
    assert report["balanced_accuracy"] == 0.5 and report["accuracy"] == 0.9, "an outside site has no right answer"
    assert report["confusion"] == {"A": {"A": 9, "B": 0}, "B": {"A": 1, "B": 0}}
    assert selector_report(ROWS) is None


def test_selection_frequencies_count_images() -> None:
    rows = [image("A", str(number), 1, 1, chosen) for number, chosen in enumerate(["A", "A", "global", "A"])]
    rows.append(image("B", "1", 1, 1, "A"))
    assert selection_frequencies(rows) == {"A": {"A": 0.75, "global": 0.25}, "B": {"A": 1.0}}
    seeds = [Scored("m", 0, rows[:1]), Scored("m", 1, [image("A", "1", 1, 1, "global")])]
    assert merge_results(seeds, "x")["methods"]["m"]["selected"]["A"] == {"A": 0.5, "global": 0.5}


def test_the_table_of_images_has_a_line_for_each() -> None:
    q = {"A": 0.75, "B": 0.25}
    rows = [image("A", "one, two", 0.5, 0.25, "A", own="A", gamma=0.9, probabilities=q), image("C", "x", 1, 1)]
    lines = list(csv.DictReader(io.StringIO(per_image_csv([Scored("fedsm", 4, rows)]))))
    assert lines[0] == {
        "method": "fedsm", "seed": "4", "site": "A", "image": "one, two", "case": "one, two", "disc": "0.500000",
        "cup": "0.250000", "mean": "0.375000", "model": "A", "gamma": "0.9", "selector": "A", "p_own": "0.750000",
    }
    assert lines[1]["selector"] == lines[1]["p_own"] == lines[1]["gamma"] == ""


def test_files_of_a_comparison(tiny_root: Path, tmp_path: Path) -> None:
    sites = ["site-1", "site-2", "site-3"]
    models = {
        "centralized": constant_super_model({"global": [True, True]}, mode="global"),
        "local": constant_super_model(dict.fromkeys(sites, [True, False]), mode="own"),
        "fedsm": random_super_model(sites),
    }
    models["centralized"].sites = ["centralized"]
    store = CaseStore(tiny_root)
    scored = [score(name, seed, model, store, compute=CPU) for name, model in models.items() for seed in (0, 1)]
    returned = write_results(tmp_path, tiny_root, scored)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics == json.loads(json.dumps(returned))
    assert metrics["seeds"] == [0, 1] and metrics["dataset"] == tiny_root.name
    assert list(metrics["methods"]) == list(models)
    for method in metrics["methods"].values():
        assert list(method["per_site"]) == sites
        assert all(set(scores) == {"disc", "cup", "mean"} for scores in method["per_site"].values())
        means = [scores["mean"] for scores in method["per_site"].values()]
        assert method["client_avg"] == pytest.approx(np.mean(means))
    assert list(metrics["methods"]["local"]["site_by_model"]) == sites
    assert "site_by_model" not in metrics["methods"]["fedsm"]
    assert metrics["methods"]["fedsm"]["gamma"] == pytest.approx(0.6)
    assert set(metrics["methods"]["fedsm"]["selector"]["confusion"]) == set(sites)
    lines = (tmp_path / "per_image.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * sum(method["n"] for method in metrics["methods"].values())
    table = results_table(metrics)
    assert all(name in table for name in [*models, *sites, "client avg", "global"])
