"""A patient's images vote together where cases.csv names them: one decision in predict, evaluate and calibration."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Picture
from super_models import random_super_model

from fedsuper.cli import main
from fedsuper.core.supermodel import gate
from fedsuper.data.images.io import read_image
from fedsuper.inference.artifact import save_super_model
from fedsuper.inference.predict import pipeline
from fedsuper.inference.predict.inputs import patients_of
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch

PATIENTS = {"a": "p1", "b": "p2", "c": "p1", "d": "p2", "e": "p3", "f": "p1"}
MODEL = random_super_model(["A", "B", "C"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A site whose patients' images are mixed up, of very different looks."""
    folder = tmp_path / "root" / "site"
    for part in ("images", "labels"):
        (folder / part).mkdir(parents=True)
    random = np.random.default_rng(5)
    for index, name in enumerate(PATIENTS):
        picture = (random.random((40, 40, 3)) ** (1 + index) * 255).astype(np.uint8)
        Picture.fromarray(picture).save(folder / "images" / f"{name}.png")
        Picture.fromarray(np.full((40, 40), 1, np.uint8)).save(folder / "labels" / f"{name}.png")
    rows = [f"{name},{patient}" for name, patient in PATIENTS.items()]
    (folder / "cases.csv").write_text("\n".join(["name,case", *rows, ""]))
    (tmp_path / "root" / "dataset.json").write_text(json.dumps(MODEL.manifest["task"]))
    save_super_model(MODEL, tmp_path / "supermodel")
    return tmp_path / "root"


def expected(root: Path, together: bool) -> dict[str, str]:
    """The model of every image by the mean of its patient's probabilities, or by its own."""
    predictor = Predictor(MODEL)
    paths = sorted((root / "site" / "images").iterdir())
    q = predictor.selector_probabilities(torch.cat([predictor.prepare(read_image(path)) for path in paths]))
    owners = list(PATIENTS.values())
    rows = [q[[k for k, owner in enumerate(owners) if owner == mine]].mean(dim=0) for mine in owners]
    picked = gate(torch.stack(rows) if together else q, 0.6).tolist()
    return {name: "global" if index < 0 else MODEL.sites[index] for name, index in zip(PATIENTS, picked, strict=True)}


def predicted(root: Path, *more: str) -> dict[str, str]:
    out = root.parent / "masks"
    assert main(["predict", str(root.parent / "supermodel"), str(root / "site"), "--out", str(out), *more]) == 0
    with open(out / "routing.csv", newline="", encoding="utf-8") as file:
        return {Path(row["image"]).stem: row["model"] for row in csv.DictReader(file)}


def test_a_patients_images_get_one_model(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = expected(root, together=True)
    assert together != expected(root, together=False), "the vote must be able to change something"
    monkeypatch.setattr(pipeline, "WINDOW_PASSES", 1)  # a patient's images do not fit in a window, and stay together
    assert predicted(root) == together
    assert list(predicted(root, "--again")) == list(PATIENTS), "the table keeps the images' order"
    assert predicted(root, "--again", "--vote", "slice") == expected(root, together=False)


def test_a_broken_run_votes_with_what_was_done(root: Path) -> None:
    whole = predicted(root)
    (root.parent / "masks" / "c.png").unlink()  # one image of a patient is to be done again
    assert predicted(root) == whole


def test_evaluate_chooses_as_predict_does(root: Path) -> None:
    out = root.parent / "scores"
    command = ["evaluate", str(root.parent / "supermodel"), "--data", str(root), "--out", str(out), "--split", "all"]
    assert main(command) == 0
    with open(out / "per_image.csv", newline="", encoding="utf-8") as file:
        chosen = {row["image"]: row["model"] for row in csv.DictReader(file)}
    assert chosen == expected(root, together=True)


def test_means_over_patients_and_images() -> None:
    cases = [torch.zeros(2, 3, 32, 32), torch.zeros(1, 3, 32, 32), torch.zeros(1, 3, 32, 32)]
    values = torch.tensor([[1.0], [2.0], [6.0], [9.0]])
    apart = SliceBatch(Predictor(MODEL), cases).case_means(values)
    together = SliceBatch(Predictor(MODEL), cases, patients=["p", "q", "p"]).case_means(values)
    assert apart.flatten().tolist() == [1.5, 1.5, 6.0, 9.0] and together.flatten().tolist() == [4.0, 4.0, 6.0, 4.0]


def test_who_is_whose_patient(root: Path, tmp_path: Path) -> None:
    images = sorted((root / "site" / "images").iterdir())
    found = patients_of([*images, tmp_path / "alone.png"])
    assert found[0] == found[2] != found[1] and found[-1] == str(tmp_path / "alone.png")
