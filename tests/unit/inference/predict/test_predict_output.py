"""What `predict` writes besides plain masks: formats, probabilities, familiarity, review, abstention, explanations."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from predict_inputs import familiar_super_model, picture, saved, volume
from super_models import PROSTATE, constant_super_model, random_super_model

from fedsuper.cli import main
from fedsuper.core.supermodel import SuperModel
from fedsuper.core.validated.quality import HALF_WIDTHS, QualityModel
from fedsuper.errors import FedSuperError
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.masks.mask_features import PER_REGION
from fedsuper.inference.overrides import override_prediction
from fedsuper.inference.predict.predict_paths import Output, predict_paths
from fedsuper.inference.predictor import Predictor


def table(out: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((out / "routing.csv").read_text())))


def run(model: Path, inputs: Path, out: Path, **options: object) -> str:
    told = io.StringIO()
    assert predict_paths(model, [inputs], out, stream=told, **options) == 0  # type: ignore[arg-type]
    return told.getvalue()


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """Five usual ones and one that resembles nothing: a black-and-white chessboard."""
    for number in range(5):
        picture(tmp_path / "in" / f"{number}.png", (32, 32), seed=100 + number)
    board = np.kron(np.indices((4, 4)).sum(axis=0) % 2, np.ones((8, 8)))[..., None].repeat(3, axis=2)
    Pillow.fromarray((board * 255).astype(np.uint8)).save(tmp_path / "in" / "strange.png")
    return tmp_path / "in"


@pytest.fixture
def familiar(tmp_path: Path) -> Path:
    return saved(familiar_super_model(), tmp_path / "familiar")


# --- familiarity ------------------------------------------------------------------------------------------------------


def test_an_image_unlike_every_site_is_flagged(familiar: Path, photographs: Path, tmp_path: Path) -> None:
    told = run(familiar, photographs, tmp_path / "out")
    rows = {Path(row["image"]).stem: row for row in table(tmp_path / "out")}
    assert rows["strange"]["review"] == "yes" and float(rows["strange"]["familiarity"]) < 0.05
    assert [rows[str(number)]["review"] for number in range(5)].count("no") >= 4
    assert (tmp_path / "out" / "strange.png").exists()
    assert "images are unlike those of every site (review in routing.csv): look at their masks" in told
    assert list(rows["0"])[-3:] == ["familiarity", "review", "mask"]


def test_the_preview_has_a_red_border_around_it(familiar: Path, photographs: Path, tmp_path: Path) -> None:
    run(familiar, photographs, tmp_path / "out")
    sheet = np.asarray(Pillow.open(tmp_path / "out" / "preview.jpg")).astype(int)
    side = sheet.shape[1] // 6
    corners = [sheet[1, side * tile + 1] for tile in range(6)]
    red = [pixel[0] > 200 and pixel[1] < 110 for pixel in corners]
    wanted = [row["review"] == "yes" for row in sorted(table(tmp_path / "out"), key=lambda row: row["image"])]
    assert red == wanted and red[5]


def test_abstaining_writes_no_mask(familiar: Path, photographs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["predict", str(familiar), str(photographs), "--out", str(out), "--abstain"]) == 0
    rows = {Path(row["image"]).stem: row for row in table(out)}
    assert rows["strange"]["model"] == "abstain" and rows["strange"]["mask"] == ""
    written = {path.stem for path in out.glob("*.png")}
    assert written == {name for name, row in rows.items() if row["review"] == "no"} and len(written) >= 4
    told = run(familiar, photographs, out, output=Output(abstain=True))
    assert "6 of 6 images were done before" in told


def test_abstaining_takes_back_the_mask_of_an_earlier_prediction(
    familiar: Path, photographs: Path, tmp_path: Path
) -> None:
    run(familiar, photographs, tmp_path / "out")
    assert (tmp_path / "out" / "strange.png").exists()
    run(familiar, photographs, tmp_path / "out", output=Output(abstain=True))
    assert not (tmp_path / "out" / "strange.png").exists()


def test_a_super_model_from_before_says_what_it_lacks(photographs: Path, tmp_path: Path) -> None:
    model = saved(random_super_model(["A", "B"]), tmp_path / "sm")
    told = run(model, photographs, tmp_path / "out")
    assert told.count("cannot tell an image unlike its sites'") == 1
    assert {(row["familiarity"], row["review"]) for row in table(tmp_path / "out")} == {("", "")}
    with pytest.raises(FedSuperError, match="--abstain: this super model cannot tell"):
        run(model, photographs, tmp_path / "other", output=Output(abstain=True))


def test_every_mode_is_judged(familiar: Path, photographs: Path, tmp_path: Path) -> None:
    for mode in ("global", "ensemble", "site:A", "route"):
        run(familiar, photographs, tmp_path / mode, mode=mode, overrides=["routing.epochs=1"])
        assert [row["review"] for row in table(tmp_path / mode)][5] == "yes"


# --- explanations -----------------------------------------------------------------------------------------------------


def test_route_explains_itself(photographs: Path, tmp_path: Path) -> None:
    model = saved(random_super_model(["A", "B"]), tmp_path / "sm")
    run(model, photographs, tmp_path / "out", mode="route", overrides=["routing.epochs=2"])
    for row in table(tmp_path / "out"):
        shares = [float(row[f"w_{name}"]) for name in ("global", "A", "B")]
        assert sum(shares) == pytest.approx(1, abs=1e-4) and min(shares) > 0
        assert float(row["loss_tuned"]) <= float(row["loss_untuned"]) and int(row["epoch"]) <= 2
        assert sum(float(row[f"p_{name}"]) for name in "AB") == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("mode", ["mix", "agree", "ensemble"])
def test_modes_that_mix_say_in_what_shares(mode: str, photographs: Path, tmp_path: Path) -> None:
    model = saved(random_super_model(["A", "B"]), tmp_path / "sm")
    run(model, photographs, tmp_path / "out", mode=mode)
    for row in table(tmp_path / "out"):
        shares = {name: float(value) for name, value in row.items() if name.startswith("w_")}
        assert sum(shares.values()) == pytest.approx(1, abs=1e-4) and {"w_A", "w_B"} <= set(shares)


# --- formats ----------------------------------------------------------------------------------------------------------


def test_masks_in_the_format_asked_for(tmp_path: Path) -> None:
    model = saved(constant_super_model({"global": [True, False]}, mode="global"), tmp_path / "sm")
    picture(tmp_path / "in" / "x.png", (40, 30))
    assert main(["predict", str(model), str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--to", "nifti"]) == 0
    mask = nibabel.Nifti1Image.from_filename(tmp_path / "out" / "x.nii.gz")
    assert mask.shape[:2] == (40, 30) and set(np.unique(np.asarray(mask.dataobj))) == {1}
    with pytest.raises(SystemExit):
        main(["predict", str(model), str(tmp_path / "in"), "--out", str(tmp_path / "other"), "--to", "jpeg"])


def test_a_format_that_cannot_hold_the_mask_costs_that_image(tmp_path: Path) -> None:
    model = saved(constant_super_model({"global": [True]}, mode="global", task=PROSTATE), tmp_path / "sm")
    volume(tmp_path / "scan.nii.gz")
    told = io.StringIO()
    code = predict_paths(model, [tmp_path / "scan.nii.gz"], tmp_path / "out", stream=told, output=Output(to="png"))
    assert code == 1 and "a PNG cannot hold the" in told.getvalue()


def test_pictures_asked_for_as_dicom_seg_are_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = saved(constant_super_model({"global": [True, False]}, mode="global"), tmp_path / "sm")
    for name in ("x.png", "y.png"):
        picture(tmp_path / "in" / name, (40, 30))
    files = ["predict", str(model), str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--to", "dicom-seg"]
    assert main(files) == 2 and not (tmp_path / "out").exists()
    told = [line for line in capsys.readouterr().err.splitlines() if "DICOM" in line]
    assert len(told) == 1 and "2 of 2 images are none (x.png first)" in told[0]


def test_probabilities_are_those_behind_the_mask(tmp_path: Path) -> None:
    model = saved(random_super_model(["A", "B"]), tmp_path / "sm")
    picture(tmp_path / "x.png", (40, 30))
    files = ["predict", str(model), str(tmp_path / "x.png"), "--out", str(tmp_path / "out")]
    assert main([*files, "--probabilities"]) == 0
    with np.load(tmp_path / "out" / "x-probabilities.npz", allow_pickle=False) as maps:
        assert set(maps) == {"disc", "cup"} and maps["disc"].shape == (1, 30, 40) and maps["disc"].dtype == np.float16
        mask = np.asarray(Pillow.open(tmp_path / "out" / "x.png"))
        assert np.array_equal(maps["disc"][0] > 0.5, mask > 0) or np.abs(maps["disc"] - 0.5).min() < 1e-3


# --- gamma 0 and 1 ----------------------------------------------------------------------------------------------------


def test_gamma_zero_never_and_gamma_one_always_takes_the_global_model(photographs: Path, tmp_path: Path) -> None:
    model = random_super_model(["A", "B"])
    folder = saved(model, tmp_path / "sm")
    fedavg = SuperModel(model.sites, model.global_model, mode="global", manifest=model.manifest)
    plain = saved(fedavg, tmp_path / "fedavg")
    run(folder, photographs, tmp_path / "zero", gamma=0.0)
    run(folder, photographs, tmp_path / "one", gamma=1.0)
    run(plain, photographs, tmp_path / "avg")
    assert "global" not in {row["model"] for row in table(tmp_path / "zero")}
    assert {row["model"] for row in table(tmp_path / "one")} == {"global"}
    written = [{path.name: path.read_bytes() for path in (tmp_path / name).glob("*.png")} for name in ("one", "avg")]
    assert written[0] == written[1] and len(written[0]) == 6


def test_an_images_mask_does_not_depend_on_its_company(photographs: Path, tmp_path: Path) -> None:
    folder = saved(random_super_model(["A", "B"]), tmp_path / "sm")
    run(folder, photographs, tmp_path / "all", output=Output(probabilities=True))
    for name in ("0", "3", "strange"):
        run(folder, photographs / f"{name}.png", tmp_path / name, output=Output(probabilities=True))
        for ending in (".png", "-probabilities.npz"):
            alone, among = (tmp_path / place / f"{name}{ending}" for place in (name, "all"))
            assert alone.read_bytes() == among.read_bytes()
        rows = {Path(row["image"]).stem: row["p_A"] for row in table(tmp_path / "all")}
        assert table(tmp_path / name)[0]["p_A"] == rows[name]


def test_the_record_keeps_what_route_found(photographs: Path, tmp_path: Path) -> None:
    model = saved(random_super_model(["A", "B"]), tmp_path / "sm")
    run(model, photographs, tmp_path / "out", mode="route", overrides=["routing.epochs=1"])
    record = json.loads((tmp_path / "out" / "predict.json").read_text())
    assert all(len(entry["details"]["losses"]) >= 1 for entry in record["images"]) and record["complete"]


# --- quality and islands ----------------------------------------------------------------------------------------------


def test_every_mask_has_its_estimated_dice_and_a_poor_one_is_vetoed(
    familiar: Path, photographs: Path, tmp_path: Path
) -> None:
    whole = load_super_model(familiar)
    whole.manifest["quality"] = vars(QualityModel([0.0] * 2 * PER_REGION, 0.6, 0.05, 1.0, 3))
    judged = saved(whole, tmp_path / "judged")
    run(judged, photographs, tmp_path / "out")
    half = HALF_WIDTHS * 0.05
    for row in table(tmp_path / "out"):
        told = [float(row[name]) for name in ("quality", "quality_low", "quality_high")]
        assert told == pytest.approx([0.6, 0.6 - half, 0.6 + half], abs=1e-3)
    assert main(["predict", str(judged), str(photographs), "--out", str(tmp_path / "veto"), "--least-quality", "0.99",
                 "--abstain"]) == 0
    assert {row["model"] for row in table(tmp_path / "veto")} == {"abstain"}
    assert {row["review"] for row in table(tmp_path / "veto")} == {"yes"}


def test_islands_go_where_validation_said_so(tmp_path: Path) -> None:
    model = random_super_model()
    model.manifest["one_piece"] = ["disc"]
    probabilities = torch.full((1, 2, 32, 32), 0.1)
    probabilities[:, :, 2:12, 2:12], probabilities[:, :, 20:24, 20:24] = 0.9, 0.9
    for switch, disc, cup in (("auto", 100, 116), ("off", 116, 116), ("on", 100, 100)):
        predictor = Predictor(override_prediction(model, [f"prediction.one_piece={switch}"]))
        _, native = predictor.restore(probabilities, (32, 32))
        assert [int((native[0, region] >= 0.5).sum()) for region in (0, 1)] == [disc, cup]
