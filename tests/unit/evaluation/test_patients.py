"""A patient whose slices are single files is scored as if they were one volume."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedsuper.config.reading import parse_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.evaluation.cases import CaseStore
from fedsuper.evaluation.data_counts import write_counts
from fedsuper.evaluation.results import score, write_results
from fedsuper.models.build import build_segmentation, first_weights

TASK = {"task": "prostate", "channels": 1, "regions": {"prostate": [1]}}
STUDY = {"method": "fedavg", "image_size": 32, "model": {"name": "plain-unet", "channels": [4, 8]}}


def write_scans(root: Path, as_volumes: bool) -> None:
    """Two patients of three slices each, with glands of very different size, as volumes or as pictures."""
    import nibabel

    site = root / "amber"
    for folder in ("images", "labels"):
        (site / folder).mkdir(parents=True)
    (root / "dataset.json").write_text(json.dumps(TASK))
    rng, cases = np.random.default_rng(0), []
    for patient in ("p", "q"):
        images = rng.integers(0, 255, (3, 36, 36)).astype(np.uint8)
        labels = np.zeros_like(images)
        for index, side in enumerate((2, 8, 20)):
            labels[index, 4 : 4 + side, 4 : 4 + side] = 1
        if as_volumes:
            for folder, array in (("images", images), ("labels", labels)):
                volume = nibabel.Nifti1Image(array.transpose(1, 2, 0), np.eye(4))
                nibabel.save(volume, site / folder / f"{patient}.nii.gz")
            continue
        for index in range(3):
            name = f"{patient}{index}"
            cases.append((name, patient))
            for folder, array in (("images", images), ("labels", labels)):
                Image.fromarray(array[index]).save(site / folder / f"{name}.png")
    names = ["p", "q"] if as_volumes else [name for name, _ in cases]
    (site / "splits.json").write_text(json.dumps({"train": [], "val": [], "test": names}))
    if cases:
        with (site / "cases.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("name", "case"), *cases])


def model() -> SuperModel:
    study = parse_study(STUDY)
    state = first_weights(lambda: build_segmentation(study.model, 1, 1), 3)
    return SuperModel(["amber"], state, manifest={"method": "fedavg", "study": study.to_json(), "task": TASK})


def test_slices_as_files_are_scored_by_patient_too(tmp_path: Path) -> None:
    roots = {kind: tmp_path / kind for kind in ("volumes", "pictures")}
    metrics = {}
    for kind, root in roots.items():
        write_scans(root, kind == "volumes")
        scored = score("fedavg", 0, model(), CaseStore(root))
        metrics[kind] = write_results(tmp_path / f"run-{kind}", root, [scored])["methods"]["fedavg"]
    pictures = metrics["pictures"]
    assert pictures["n"] == 6 and metrics["volumes"]["n"] == pictures["per_patient"]["n"] == 2
    assert "per_patient" not in metrics["volumes"]  # there every image is a patient
    sums: dict[str, list[int]] = {"p": [0, 0], "q": [0, 0]}
    for row in score("fedavg", 0, model(), CaseStore(roots["pictures"])).rows:
        assert row.detail is not None
        both, total = row.detail.overlap["prostate"]
        assert row.dice["prostate"] == pytest.approx(2 * both / total)
        sums[row.case] = [sums[row.case][0] + both, sums[row.case][1] + total]
    expected = sum(2 * both / total for both, total in sums.values()) / 2
    assert pictures["per_patient"]["per_site"]["amber"]["prostate"] == pytest.approx(expected)
    assert expected != pytest.approx(pictures["per_site"]["amber"]["prostate"])  # sizes differ: so do the two means


def test_patients_and_images_are_counted_apart(tmp_path: Path) -> None:
    write_scans(tmp_path / "root", as_volumes=False)
    write_counts(tmp_path, CaseStore(tmp_path / "root"), model())
    counted = json.loads((tmp_path / "data.json").read_text())
    assert counted["amber"] == {
        "train": {"patients": 0, "images": 0},
        "val": {"patients": 0, "images": 0},
        "test": {"patients": 2, "images": 6},
    }
