"""Scoring an outside hospital: every mode a row, labels only at the end."""

import json

import numpy as np
import pytest
from PIL import Image
from super_models import RETINA, constant_super_model, random_super_model

from fedsuper.errors import FedSuperError
from fedsuper.evaluation.evaluate import ScoredImage, evaluate
from fedsuper.evaluation.outside import (
    OutsideRow,
    outside_markdown,
    outside_modes,
    score_outside,
    summarize_outside,
)
from fedsuper.inference.modes.base import create_mode
from fedsuper.inference.predictor import Predictor


@pytest.fixture
def root(tmp_path):
    """One hospital: in half of its images everything is disc, in the other half disc and cup."""
    for kind in ("images", "labels"):
        (tmp_path / "root" / "north" / kind).mkdir(parents=True)
    (tmp_path / "root" / "dataset.json").write_text(json.dumps(RETINA))
    rng = np.random.default_rng(0)
    for index in range(4):
        folder = tmp_path / "root" / "north"
        Image.fromarray(rng.integers(0, 255, (24, 24, 3), dtype=np.uint8)).save(folder / "images" / f"{index}.png")
        Image.fromarray(np.full((24, 24), 1 + index % 2, dtype=np.uint8)).save(folder / "labels" / f"{index}.png")
    return tmp_path / "root"


def test_every_mode_is_a_row_and_a_missing_one_says_why(root):
    model = random_super_model(routing={"epochs": 1, "radius": 2})
    rows = {row.mode: row for row in score_outside(model, root, "north")}
    singles = ["site:A", "site:B", "site:C"]
    others = ["global", "global-stats", "tent", "ttt", "ensemble", "average"]
    assert list(rows) == outside_modes(model) == [*others, *singles, "select", "route", "oracle"]
    for mode, row in rows.items():
        assert (row.problem is None) == (mode not in ("tent", "ttt"))
        assert len(row.images) == (4 if row.problem is None else 0)
    assert "model.norm: batch" in rows["tent"].problem and "method: ttt" in rows["ttt"].problem
    table = outside_markdown(summarize_outside({0: list(rows.values())}))
    assert all(f"| {mode} |" in table for mode in rows) and table.count("not available") == 2
    best = np.max([[image.mean for image in rows[mode].images] for mode in ("global", *singles)], axis=0)
    assert [image.mean for image in rows["oracle"].images] == pytest.approx(best)
    mean = np.mean([[image.mean for image in rows[mode].images] for mode in singles], axis=0)
    assert [image.mean for image in rows["average"].images] == pytest.approx(mean)


def test_oracle_takes_the_best_model_of_each_image_by_its_label(root):
    answers = {"global": (False, False), "A": (True, False), "B": (True, True)}
    (oracle,) = score_outside(constant_super_model(answers), root, "north", ["oracle"])
    assert [image.chosen for image in oracle.images] == ["A", "B", "A", "B"]
    assert all(image.mean == 1 for image in oracle.images)
    summary = summarize_outside({0: [oracle]})["oracle"]
    assert summary["chosen"] == {"A": 0.5, "B": 0.5} and summary["mean"] == 1


def test_oracle_is_for_evaluation_only(root):
    model = constant_super_model({"global": (True, False), "A": (True, True)})
    with pytest.raises(FedSuperError, match="not a mask"):
        create_mode(Predictor(model), "oracle")
    assert all(row.mean == 1 for row in evaluate(model, root, "all", "oracle"))


def test_another_task_is_refused(root):
    task = {"task": "prostate", "channels": 1, "regions": {"prostate": [1]}}
    with pytest.raises(FedSuperError, match="task"):
        score_outside(random_super_model(task=task), root, "north")


def scored(mode: str, values: list[float], seconds: float = 1.0) -> OutsideRow:
    images = [ScoredImage("north", f"i{n}", f"p{n}", {"disc": v, "cup": v}, mode) for n, v in enumerate(values)]
    return OutsideRow(mode, images, seconds)


def test_summary_means_intervals_and_gain_over_the_baseline():
    baseline = scored("global-stats", [0.5, 0.7])
    summary = summarize_outside({seed: [baseline, scored("route", [0.6, 0.8 + seed / 10], 3.0)] for seed in (0, 1)})
    route = summary["route"]
    assert route["mean"] == pytest.approx(0.725) and route["n"] == 4
    assert route["by_seed"] == {"0": pytest.approx(0.7), "1": pytest.approx(0.75)}
    assert route["ci95"][0] <= route["mean"] <= route["ci95"][1]
    assert route["gain"]["mean"] == pytest.approx(0.125) and route["gain"]["over"] == "global-stats"
    assert route["seconds_per_image"] == 3.0
    assert "gain" not in summary["global-stats"]
    json.dumps(summary, allow_nan=False)


def test_a_later_row_of_a_mode_replaces_an_earlier_one():
    summary = summarize_outside({0: [OutsideRow("ttt", problem="no head"), scored("ttt", [0.4])]})
    assert summary["ttt"]["mean"] == pytest.approx(0.4)
