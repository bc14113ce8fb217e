"""Scores against counting pixels by hand, on the split that training used."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import torch
from super_models import PROSTATE, constant_super_model, random_super_model

from fedsuper.config.reading import parse_study
from fedsuper.data.images.io import read_label
from fedsuper.data.layout import Item, list_items
from fedsuper.data.splits import RATIOS, split_items
from fedsuper.data.task import Task
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import CaseStore, LabeledCase, chunks, load_case
from fedsuper.evaluation.evaluate import (
    evaluate,
    evaluate_modes,
    federation_names,
    site_by_model,
    site_means,
    site_scores,
)
from fedsuper.inference.predictor import Predictor
from fedsuper.train.device import Compute

CPU = Compute(torch.device("cpu"))
SITES = ["site-1", "site-2", "site-3"]
EVERYWHERE, NOWHERE = [True, True], [False, False]
TASK = Task("retina", 3, {"disc": (1, 2), "cup": (2,)})


def full_mask_dice(root: Path, site: str, image: str) -> dict[str, float]:
    """Dice of marking every pixel: 2 |T| / (|T| + N), in the label's own grid."""
    label = read_label(root / site / "labels" / f"{image}.png")
    counts = {"disc": np.isin(label, [1, 2]).sum(), "cup": (label == 2).sum()}
    return {region: 2 * count / (count + label.size) for region, count in counts.items()}


def test_dice_is_counted_in_the_images_own_grid(tiny_root: Path) -> None:
    model = constant_super_model({"global": EVERYWHERE}, mode="global")
    rows = evaluate(model, tiny_root, compute=CPU)
    assert {row.site for row in rows} == set(SITES)
    for row in rows:
        assert row.dice == pytest.approx(full_mask_dice(tiny_root, row.site, row.image))
        assert row.mean == pytest.approx(sum(row.dice.values()) / 2)
        assert row.chosen == "global" and row.predicted is None and row.mode == "global"


def test_the_split_is_the_one_of_the_study(tiny_root: Path) -> None:
    scored = {}
    for seed in (0, 1):
        model = constant_super_model({"global": NOWHERE}, mode="global", split={"seed": seed})
        scored[seed] = {(row.site, row.image) for row in evaluate(model, tiny_root, compute=CPU)}
        expected = {
            (site, item.name)
            for site in SITES
            for item in split_items(tiny_root / site, list_items(tiny_root / site, True), RATIOS["fedsm"], seed)["test"]
        }
        assert scored[seed] == expected
    assert scored[0] != scored[1]


def test_parts_of_the_split(tiny_root: Path) -> None:
    study = parse_study({})
    store = CaseStore(tiny_root)
    parts = [{item.name for item in store.items("site-2", part, study, TASK)} for part in ("train", "val", "test")]
    everything = {item.name for item in store.items("site-2", "all", study, TASK)}
    assert set.union(*parts) == everything and sum(map(len, parts)) == len(everything)
    with pytest.raises(FedSuperError, match="has no part 'tset'; use train, val, test or all"):
        CaseStore(tiny_root).items("site-2", "tset", study, TASK)


def test_each_site_is_scored_with_its_own_model(tiny_root: Path) -> None:
    answers = {"site-1": EVERYWHERE, "site-2": NOWHERE, "site-3": NOWHERE}
    model = constant_super_model(answers, mode="own")
    for row in evaluate(model, tiny_root, compute=CPU):
        assert row.chosen == row.site == row.own
        assert (row.mean > 0) == (row.site == "site-1")


def test_site_by_model_has_own_scores_on_its_diagonal(tiny_root: Path) -> None:
    model = constant_super_model({"site-1": EVERYWHERE, "site-2": NOWHERE, "site-3": NOWHERE}, mode="own")
    matrix = site_by_model(model, CaseStore(tiny_root), compute=CPU)
    assert list(matrix) == SITES and all(list(row) == SITES for row in matrix.values())
    assert all(value > 0 for value in matrix["site-1"].values()) and not any(matrix["site-2"].values())
    rows = evaluate(model, tiny_root, compute=CPU)
    for site in SITES:
        assert matrix[site][site] == pytest.approx(site_means([row for row in rows if row.site == site])["mean"])


def test_average_is_the_mean_of_scores(tiny_root: Path) -> None:
    model = random_super_model(SITES)
    modes = ["average", "ensemble", *(f"site:{site}" for site in SITES)]
    rows = evaluate_modes(model, tiny_root, modes, compute=CPU)
    for index, row in enumerate(rows["average"]):
        members = [rows[f"site:{site}"][index] for site in SITES]
        assert row.chosen == "average"
        for region in row.dice:
            assert row.dice[region] == pytest.approx(np.mean([member.dice[region] for member in members]))
    different = [a.dice != b.dice for a, b in zip(rows["average"], rows["ensemble"], strict=True)]
    assert any(different), "a mean of scores is not the score of a mean"
    model.personal = {site: model.personal["site-1"] for site in SITES}
    same = evaluate_modes(model, tiny_root, ["average", "ensemble"], compute=CPU)
    for a, b in zip(same["average"], same["ensemble"], strict=True):
        assert a.dice == pytest.approx(b.dice, abs=1e-3)


def test_several_modes_at_once_score_as_one_by_one(tiny_root: Path) -> None:
    model = random_super_model(SITES)
    modes = ["select", "global", "mix", "own"]
    together = evaluate_modes(model, tiny_root, modes, compute=CPU)
    for mode in modes:
        apart = evaluate(model, tiny_root, mode=mode, compute=CPU)
        assert [row.image for row in apart] == [row.image for row in together[mode]]
        for a, b in zip(apart, together[mode], strict=True):
            assert a.dice == pytest.approx(b.dice, abs=1e-3) and a.chosen == b.chosen


def test_rows_carry_the_selectors_answer(tiny_root: Path) -> None:
    answers = {"global": EVERYWHERE, "site-1": NOWHERE, "site-2": NOWHERE, "site-3": NOWHERE}
    model = constant_super_model(answers, {"site-1": 0.1, "site-2": 0.7, "site-3": 0.2})
    row = evaluate(model, tiny_root, gamma=0.65, compute=CPU)[0]
    assert row.probabilities == pytest.approx({"site-1": 0.1, "site-2": 0.7, "site-3": 0.2}, abs=1e-6)
    assert row.predicted == "site-2" and row.chosen == "site-2" and row.gamma == 0.65
    assert evaluate(model, tiny_root, gamma=0.75, compute=CPU)[0].chosen == "global"


def test_a_sites_own_report_equals_the_evaluation(tiny_root: Path) -> None:
    model = random_super_model(SITES)
    rows = [row for row in evaluate(model, tiny_root, compute=CPU) if row.site == "site-2"]
    items = CaseStore(tiny_root).items("site-2", "test", Predictor(model, CPU).study, TASK)
    scores = site_scores(model, tiny_root / "site-2", items, CPU, "site-2")
    assert json.loads(json.dumps(scores)) == scores
    assert 0 <= scores.pop("mean_low") <= scores["mean"] <= scores.pop("mean_high") <= 1
    assert scores == pytest.approx(site_means(rows)) and scores["n"] == len(items)
    with pytest.raises(FedSuperError, match="no image to average over"):
        site_scores(model, tiny_root / "site-2", [], CPU, "site-2")


def test_a_pooled_model_is_scored_on_every_site(tiny_root: Path) -> None:
    model = constant_super_model({"global": EVERYWHERE}, mode="global")
    model.sites = ["centralized"]
    rows = evaluate(model, tiny_root, compute=CPU)
    assert {row.site for row in rows} == set(SITES) and {row.own for row in rows} == {None}


def test_an_outside_site_has_no_model_of_its_own(tiny_root: Path) -> None:
    with_global = constant_super_model({"global": EVERYWHERE, "site-1": NOWHERE}, mode="own")
    chosen = {row.site: row.chosen for row in evaluate(with_global, tiny_root, compute=CPU)}
    assert chosen == {"site-1": "site-1", "site-2": "global", "site-3": "global"}
    without = constant_super_model({"site-1": EVERYWHERE, "site-2": NOWHERE}, mode="own")
    outside = [row for row in evaluate(without, tiny_root, compute=CPU) if row.site == "site-3"]
    for row in outside:
        full = full_mask_dice(tiny_root, "site-3", row.image)
        assert row.chosen == "average" and row.dice == pytest.approx({name: value / 2 for name, value in full.items()})


def test_numbered_sites_stand_for_folders_in_order(tiny_root: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(tiny_root, root)
    for old, new in zip(SITES, ["Ghent", "Lyon", "Oslo"], strict=True):
        (root / old).rename(root / new)
    model = random_super_model(SITES)
    assert federation_names(model, root) == {"Ghent": "site-1", "Lyon": "site-2", "Oslo": "site-3"}
    assert federation_names(random_super_model(SITES[:2]), root) == {}, "more folders than sites: another federation"
    shutil.rmtree(root / "Lyon")
    assert federation_names(model, root) == {}
    assert federation_names(random_super_model(["Oslo", "Rome"]), root) == {"Oslo": "Oslo"}


def test_only_the_sites_asked_for(tiny_root: Path) -> None:
    rows = evaluate(random_super_model(SITES), tiny_root, compute=CPU, sites=["site-3"])
    assert {row.site for row in rows} == {"site-3"}


def test_data_of_another_task_is_refused(tiny_root: Path) -> None:
    model = constant_super_model({"global": [True]}, mode="global", task=PROSTATE)
    with pytest.raises(FedSuperError, match="use data of the same task"):
        evaluate(model, tiny_root, compute=CPU)


def test_images_are_prepared_once_for_all_methods(tiny_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedsuper.evaluation import cases

    loaded: list[str] = []

    def counted(item: Item, *rest: Any) -> LabeledCase:
        loaded.append(item.name)
        return load_case(item, *rest)

    monkeypatch.setattr(cases, "load_case", counted)
    store = CaseStore(tiny_root)
    first = evaluate(random_super_model(SITES), tiny_root, compute=CPU, store=store)
    evaluate(constant_super_model({"global": EVERYWHERE}, mode="global"), tiny_root, compute=CPU, store=store)
    assert len(loaded) == len(first)
    evaluate(random_super_model(SITES, image_size=48), tiny_root, compute=CPU, store=store)
    assert len(loaded) == 2 * len(first), "another input size is prepared anew"


def test_a_volume_is_one_image(tmp_path: Path) -> None:
    """Case level: slices without the organ do not count as images of their own."""
    root = tmp_path / "root"
    for number in range(4):
        label = np.zeros((20, 22, 6), dtype=np.uint8)
        label[5:12, 5:12, 2 + number % 2] = 1
        for kind, data in (("images", np.random.default_rng(number).normal(size=label.shape)), ("labels", label)):
            (root / "S" / kind).mkdir(parents=True, exist_ok=True)
            nibabel.save(
                nibabel.Nifti1Image(data.astype(np.float32), np.diag([0.5, 0.5, 3, 1])),
                root / "S" / kind / f"v{number}.nii.gz",
            )
    (root / "dataset.json").write_text(json.dumps(PROSTATE))
    model = constant_super_model({"global": [True]}, mode="global", task=PROSTATE)
    rows = evaluate(model, root, "all", compute=CPU)
    assert len(rows) == 4
    inside, voxels = 49, 20 * 22 * 6
    for row in rows:
        assert row.dice["prostate"] == pytest.approx(2 * inside / (inside + voxels))


def test_portions_keep_order_and_lose_nothing(tiny_root: Path) -> None:
    study = parse_study({"image_size": 32})
    predictor = Predictor(random_super_model(SITES), CPU)
    cases = CaseStore(tiny_root).cases("site-2", "all", study, predictor.task, predictor.preprocess)
    portions = list(chunks(cases, slices=4))
    assert [case for portion in portions for case in portion] == cases
    assert all(len(portion) == 4 for portion in portions[:-1])
