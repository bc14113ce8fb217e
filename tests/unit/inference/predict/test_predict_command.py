"""`fedsuper predict` on real files: masks, names, the routing table, and nothing of the user's overwritten."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image as Pillow
from predict_inputs import picture, saved, volume
from super_models import PROSTATE, constant_super_model, random_super_model

from fedsuper.cli import main
from fedsuper.data.images.io import read_image
from fedsuper.errors import FedSuperError
from fedsuper.inference.predict.inputs import find_images, plan
from fedsuper.inference.predict.predict_paths import predict_paths
from fedsuper.inference.predictor import Predictor


def digests(*roots: Path) -> dict[Path, str]:
    files = [path for root in roots for path in root.rglob("*") if path.is_file()]
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def table(out: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((out / "routing.csv").read_text())))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved(random_super_model(["A", "B"]), tmp_path / "sm")


def test_masks_have_the_pictures_size_and_name(model: Path, tmp_path: Path) -> None:
    picture(tmp_path / "in" / "one.png", (40, 30))
    picture(tmp_path / "in" / "two.jpg", (33, 71))
    before = digests(tmp_path / "in")
    assert predict_paths(model, [tmp_path / "in"], tmp_path / "out", stream=io.StringIO()) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "one.png", "predict.json", "preview.jpg", "routing.csv", "two.png",
    ]
    assert Pillow.open(tmp_path / "out" / "one.png").size == (40, 30)
    assert Pillow.open(tmp_path / "out" / "two.png").size == (33, 71)
    assert digests(tmp_path / "in") == before


def test_the_routing_table_explains_every_image(model: Path, tmp_path: Path) -> None:
    for number in range(4):
        picture(tmp_path / "in" / f"{number}.png", seed=number)
    predict_paths(model, [tmp_path / "in"], tmp_path / "out", gamma=0.55, stream=io.StringIO())
    rows = table(tmp_path / "out")
    assert [Path(row["image"]).name for row in rows] == ["0.png", "1.png", "2.png", "3.png"]
    for row in rows:
        q = {"A": float(row["p_A"]), "B": float(row["p_B"])}
        assert sum(q.values()) == pytest.approx(1, abs=1e-5) and row["gamma"] == "0.55"
        best = max(q, key=lambda name: q[name])
        assert row["model"] == (best if q[best] > 0.55 else "global")
        assert (tmp_path / "out" / row["mask"]).exists()


def test_a_volume_keeps_its_geometry(tmp_path: Path) -> None:
    model = saved(constant_super_model({"global": [True]}, mode="global", task=PROSTATE), tmp_path / "sm")
    source = nibabel.Nifti1Image.from_filename(volume(tmp_path / "scan.v1.nii.gz"))
    assert predict_paths(model, [tmp_path / "scan.v1.nii.gz"], tmp_path / "out", stream=io.StringIO()) == 0
    mask = nibabel.Nifti1Image.from_filename(tmp_path / "out" / "scan.v1.nii.gz")
    assert mask.shape == source.shape and np.allclose(mask.affine, source.affine)
    assert np.asarray(mask.dataobj).dtype == np.uint8 and (np.asarray(mask.dataobj) == 1).all()
    assert len(table(tmp_path / "out")) == 1


def test_slices_that_went_apart_have_rows_of_their_own(tmp_path: Path) -> None:
    model = random_super_model(["A", "B"], task=PROSTATE)
    folder = saved(model, tmp_path / "sm")
    predictor = Predictor(model)
    slices = predictor.prepare(read_image(volume(tmp_path / "scan.nii.gz")))
    surest = predictor.selector_probabilities(slices).amax(dim=1)
    gamma = float(surest.median())  # half of the slices are surer than that
    for vote in ("case", "slice"):
        files = [str(folder), str(tmp_path / "scan.nii.gz"), "--out", str(tmp_path / vote)]
        assert main(["predict", *files, "--gamma", repr(gamma), "--vote", vote]) == 0
    whole, apart = table(tmp_path / "case"), table(tmp_path / "slice")
    assert [row["slice"] for row in whole] == [""]
    assert [row["slice"] for row in apart] == [str(index) for index in range(len(surest))]
    assert [row["model"] == "global" for row in apart] == (surest <= gamma).tolist()
    assert float(whole[0]["p_A"]) == pytest.approx(np.mean([float(row["p_A"]) for row in apart]), abs=1e-5)


def test_one_bad_image_costs_only_itself(model: Path, tmp_path: Path) -> None:
    picture(tmp_path / "in" / "good.png")
    (tmp_path / "in" / "torn.png").write_bytes((tmp_path / "in" / "good.png").read_bytes()[:60])
    (tmp_path / "in" / "empty.nii.gz").touch()
    told = io.StringIO()
    inputs = [tmp_path / "in", tmp_path / "nowhere.png", tmp_path / "sm" / "supermodel.json"]
    assert predict_paths(model, inputs, tmp_path / "out", stream=told) == 1
    assert (tmp_path / "out" / "good.png").exists() and not (tmp_path / "out" / "torn.png").exists()
    lines = told.getvalue().splitlines()
    for name in ("torn.png", "empty.nii.gz", "nowhere.png", "supermodel.json"):
        assert sum(name in line for line in lines) == 1
    record = json.loads((tmp_path / "out" / "predict.json").read_text())
    assert record["complete"] and sum("problem" in entry for entry in record["images"]) == 2
    assert [path.name for path in (tmp_path / "out").glob(".partial*")] == []
    assert len(table(tmp_path / "out")) == 1


def test_nothing_to_predict_is_an_error(model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FedSuperError, match="no image among the inputs"):
        predict_paths(model, [tmp_path / "empty"], tmp_path / "out", stream=io.StringIO())
    assert not (tmp_path / "out").exists()


def test_a_site_a_root_and_a_file_given_twice(tmp_path: Path) -> None:
    for site in ("A", "B"):
        picture(tmp_path / "root" / site / "images" / "x.png")
        picture(tmp_path / "root" / site / "labels" / "x.png")
    single = tmp_path / "root" / "A" / "images" / "x.png"
    images, problems = find_images([tmp_path / "root" / "A", single, tmp_path / "root" / "B" / ".." / "A" / "images"])
    assert images == [single] and not problems
    images, _ = find_images([tmp_path / "root"])
    assert [job.mask for job in plan(images)] == ["A_x.png", "B_x.png"]


def test_hidden_folders_are_not_sites(model: Path, tmp_path: Path) -> None:
    picture(tmp_path / "in" / "a.png", (40, 30))
    (tmp_path / "in" / ".thumbnails" / "images").mkdir(parents=True)
    assert predict_paths(model, [tmp_path / "in"], tmp_path / "out") == 0


def test_namesakes_get_names_of_their_own(tmp_path: Path) -> None:
    paths = [tmp_path / "p" / "x.png", tmp_path / "q" / "x.png", tmp_path / "q" / "X.jpg", tmp_path / "q" / "alone.nii"]
    masks = [job.mask for job in plan(paths)]
    assert masks[0] == "p_x.png" and masks[3] == "alone.nii.gz"
    assert len({mask.lower() for mask in masks}) == 4


def test_a_folder_of_dicom_slices_is_one_image(tmp_path: Path) -> None:
    series = tmp_path / "patient1"
    series.mkdir()
    (series / "1.dcm").touch()
    (series / "2.dcm").touch()
    assert find_images([series])[0] == [series]
    assert find_images([tmp_path])[0] == [series]
    assert plan([series])[0].mask == "patient1.nii.gz"


@pytest.mark.parametrize("where", ["the inputs' own folder", "a folder of labels"])
def test_what_a_prediction_did_not_write_stays(model: Path, tmp_path: Path, where: str) -> None:
    picture(tmp_path / "in" / "x.png")
    out = tmp_path / "in"
    if where == "a folder of labels":
        out = tmp_path / "labels"
        picture(out / "x.png", seed=5)
    before = digests(tmp_path / "in", out)
    with pytest.raises(FedSuperError, match="was not written by a prediction"):
        predict_paths(model, [tmp_path / "in"], out, stream=io.StringIO())
    assert digests(tmp_path / "in", out) == before


def test_predicting_again_into_the_same_folder(model: Path, tmp_path: Path) -> None:
    picture(tmp_path / "in" / "x.png")
    picture(tmp_path / "more" / "y.png")
    out = tmp_path / "out"
    assert predict_paths(model, [tmp_path / "in"], out, stream=io.StringIO()) == 0
    assert predict_paths(model, [tmp_path / "more"], out, stream=io.StringIO()) == 0
    assert predict_paths(model, [tmp_path / "in"], out, mode="global", stream=io.StringIO()) == 0
    with pytest.raises(FedSuperError, match="was not written by a prediction"):  # its own masks as inputs
        predict_paths(model, [out / "x.png"], out, stream=io.StringIO())


def test_a_broken_run_can_be_repeated(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        picture(tmp_path / "in" / f"{name}.png")
    from fedsuper.inference.predict import predict_paths as predict

    original = predict.write_mask

    def dying(path: Path, *arguments: object) -> None:
        if path.name == "b.png":
            raise KeyboardInterrupt
        original(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(predict, "write_mask", dying)
    with pytest.raises(KeyboardInterrupt):
        predict_paths(model, [tmp_path / "in"], tmp_path / "out", stream=io.StringIO())
    monkeypatch.undo()
    assert not json.loads((tmp_path / "out" / "predict.json").read_text())["complete"]
    assert predict_paths(model, [tmp_path / "in"], tmp_path / "out", stream=io.StringIO()) == 0


def test_the_record_says_what_was_done(model: Path, tmp_path: Path) -> None:
    picture(tmp_path / "x.png")
    predict_paths(model, [tmp_path / "x.png"], tmp_path / "out", mode="site:B", stream=io.StringIO())
    record = json.loads((tmp_path / "out" / "predict.json").read_text())
    manifest = hashlib.sha256((model / "supermodel.json").read_bytes()).hexdigest()
    assert record["mode"] == "site:B" and record["gamma"] is None and record["supermodel"]["sha256"] == manifest
    (entry,) = record["images"]
    assert entry["image"] == str(tmp_path / "x.png") and entry["mask"] == "x.png" and entry["model"] == "B"


def test_wrong_options_stop_before_anything_is_written(model: Path, tmp_path: Path) -> None:
    picture(tmp_path / "x.png")
    for mode, gamma in (("average", None), (None, 2.0), ("site:nobody", None)):
        with pytest.raises(FedSuperError):
            predict_paths(model, [tmp_path / "x.png"], tmp_path / "out", mode, gamma, stream=io.StringIO())
    with pytest.raises(FedSuperError, match="mode global has no gates to keep"):
        predict_paths(model, [tmp_path / "x.png"], tmp_path / "out", "global", routing_file=tmp_path / "gates")
    assert not (tmp_path / "out").exists()


def test_an_adapting_mode_sees_all_images_first(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedsuper.inference import modes
    from fedsuper.inference.modes import fixed

    events: list[str] = []

    class Adapting(fixed.Global):
        name = "adapting"
        adapts = True

        def prepare(self, cases):
            events.append(f"prepare {len(list(cases))}")

        def predict(self, batch):
            events.append("predict")
            return super().predict(batch)

    monkeypatch.setattr(fixed, "Adapting", Adapting, raising=False)
    monkeypatch.setitem(modes.MODES, "adapting", "fedsuper.inference.modes.fixed:Adapting")
    for name in ("a", "b"):
        picture(tmp_path / "in" / f"{name}.png")
    (tmp_path / "in" / "torn.png").write_bytes(b"x")
    predict_paths(model, [tmp_path / "in"], tmp_path / "out", mode="adapting", stream=io.StringIO())
    assert events == ["prepare 2", "predict", "predict"]


def test_the_preview_shows_at_most_thirty_tiles(model: Path, tmp_path: Path) -> None:
    from fedsuper.inference.predict.preview import ContactSheet

    for total in (1, 7, 30, 31, 100, 1000):
        sheet = ContactSheet(total)
        assert sum(sheet.wants(index) for index in range(total)) == min(total, 30)
