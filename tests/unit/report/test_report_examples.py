"""Examples are chosen by a rule, saved with their masks, and drawn as outlines."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from fedsuper.cli.entry import main
from fedsuper.config.reading import parse_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.layout import Item
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import CaseStore
from fedsuper.evaluation.exhibits.examples import choose, write_examples
from fedsuper.evaluation.exhibits.feature_map import write_features
from fedsuper.evaluation.exhibits.small_pictures import crop_window, to_picture
from fedsuper.evaluation.run_files.examples import read_examples
from fedsuper.evaluation.run_files.tables import read_features
from fedsuper.inference.artifact import load_super_model, save_super_model
from fedsuper.models.build import build_segmentation, build_selector, first_weights
from fedsuper.report.page import write_report
from fedsuper.report.sections.scores.examples import outline_path

TASK = {"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}}
STUDY = {"image_size": 32, "model": {"name": "plain-unet", "channels": [4, 8]}}
SITES = ["amber", "birch"]


def loaded(folders: Mapping[str, Path]) -> dict[str, SuperModel]:
    return {method: load_super_model(folder) for method, folder in folders.items()}


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites with eight small pictures each, four of them for testing."""
    root = tmp_path_factory.mktemp("data")
    (root / "dataset.json").write_text(json.dumps(TASK))
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:40, :56]
    for place, site in enumerate(SITES):
        for folder in ("images", "labels"):
            (root / site / folder).mkdir(parents=True)
        names = [f"eye{number}" for number in range(8)]
        for number, name in enumerate(names):
            picture = rng.integers(0, 90, (40, 56, 3)) + np.array([60 * place, 40, 20])
            distance = np.hypot(y - 20, x - 20 - number)
            Image.fromarray(picture.astype(np.uint8)).save(root / site / "images" / f"{name}.png")
            label = (distance < 9).astype(np.uint8) + (distance < 4)
            Image.fromarray(label.astype(np.uint8)).save(root / site / "labels" / f"{name}.png")
        (root / site / "splits.json").write_text(json.dumps({"train": names[:2], "val": names[2:4], "test": names[4:]}))
    return root


@pytest.fixture(scope="module")
def super_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Untrained super models: what they predict is poor but real."""
    folders = {}
    for method, mode in (("fedsm", "select"), ("local", "own")):
        study = parse_study({"method": method, **STUDY})
        state = first_weights(lambda study=study: build_segmentation(study.model, 3, 2), 0)
        selector = first_weights(lambda study=study: build_selector(study.selector, 3, 2), 0)
        manifest = {"method": method, "study": study.to_json(), "task": TASK, "gamma": 0.0, "history": []}
        folders[method] = tmp_path_factory.mktemp("models") / method
        with_all = method == "fedsm"
        model = SuperModel(
            SITES,
            state if with_all else None,
            {site: state for site in SITES},
            selector if with_all else None,
            mode,
            manifest,
        )
        save_super_model(model, folders[method])
    return folders


@pytest.fixture(scope="module")
def examples(data_root: Path, super_models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("run")
    write_examples(run, CaseStore(data_root), loaded(super_models))
    return run / "examples"


def test_what_is_written_is_what_the_report_reads(examples: Path, super_models: dict[str, Path]) -> None:
    found = read_examples(examples.parent)
    assert found is not None
    assert found.regions == ["disc", "cup"]
    assert "median and worst" in found.rule
    assert [(item.site, item.place) for item in found.items] == [
        (s, p) for s in SITES for p in ("median", "worst")
    ]
    for item in found.items:
        assert set(item.methods) == set(super_models)
        assert item.truth["disc"].any() and item.truth["cup"].any()
        assert all(0 <= value <= 1 for answer in item.methods.values() for value in answer.dice.values())
        assert item.methods["local"].chosen == item.site


def test_only_test_images_are_shown_and_the_crop_holds_the_true_mask(examples: Path) -> None:
    for entry in json.loads((examples / "index.json").read_text())["examples"]:
        assert entry["image"] in ("eye4", "eye5", "eye6", "eye7")
        disc = np.asarray(Image.open(examples / entry["truth"]["disc"]))
        assert set(np.unique(disc)) == {0, 255}
        assert (disc > 0).sum() == pytest.approx(np.pi * 81, rel=0.05)
        assert Image.open(examples / entry["picture"]).size == tuple(entry["size"]) == disc.shape


def test_writing_again_gives_the_same_files_and_drops_stale_ones(
    examples: Path, data_root: Path, super_models: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "examples"
    out.mkdir()
    (out / "099-image.png").write_bytes(b"stale")
    write_examples(tmp_path, CaseStore(data_root), loaded(super_models))
    assert {p.name: p.read_bytes() for p in out.iterdir()} == {p.name: p.read_bytes() for p in examples.iterdir()}


def test_scores_beside_the_folder_decide(data_root: Path, super_models: dict[str, Path], tmp_path: Path) -> None:
    rows = [f"fedsm,0,{site},eye{n},c,{n / 10},m" for site in SITES for n in range(4, 8)]
    (tmp_path / "per_image.csv").write_text("\n".join(["method,seed,site,image,case,mean,model", *rows]) + "\n")
    write_examples(tmp_path, CaseStore(data_root), loaded(super_models), per_site=3)
    names = [entry["image"] for entry in json.loads((tmp_path / "examples" / "index.json").read_text())["examples"]]
    assert names == ["eye6", "eye4", "eye7"] * 2


def test_a_page_with_real_examples(examples: Path, super_models: dict[str, Path]) -> None:
    run = examples.parent
    (run / "supermodel").symlink_to(super_models["fedsm"])
    write_report([run], run / "report.html")
    text = (run / "report.html").read_text()
    assert text.count('class="case"') == 4
    gallery = text.partition('class="gallery"')[2].partition("</section>")[0]
    assert gallery.count("data:image/jpeg;base64,") == gallery.count("<figcaption>") == len(SITES)
    assert text.count("data:image/png;base64,") == 4  # one picture an example, shared by all methods


def test_a_volume_is_shown_by_its_fullest_slice(tmp_path: Path) -> None:
    import nibabel

    root = tmp_path / "data"
    (root / "amber" / "images").mkdir(parents=True)
    (root / "amber" / "labels").mkdir()
    task = {"task": "prostate", "channels": 1, "regions": {"prostate": [1]}}
    (root / "dataset.json").write_text(json.dumps(task))
    for name in "abc":
        voxels = np.random.default_rng(0).normal(500, 200, (36, 36, 5)).astype(np.float32)
        label = np.zeros((36, 36, 5), dtype=np.uint8)
        label[10:20, 10:20, 1], label[8:26, 8:26, 3] = 1, 1
        nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), root / "amber" / "images" / f"{name}.nii.gz")
        nibabel.save(nibabel.Nifti1Image(label, np.eye(4)), root / "amber" / "labels" / f"{name}.nii.gz")
    study = parse_study({"method": "fedavg", **STUDY})
    state = first_weights(lambda: build_segmentation(study.model, 1, 1), 0)
    manifest = {"method": "fedavg", "study": study.to_json(), "task": task}
    save_super_model(SuperModel(["amber"], state, manifest=manifest), tmp_path / "model")
    write_examples(tmp_path, CaseStore(root), loaded({"fedavg": tmp_path / "model"}))
    (entry,) = json.loads((tmp_path / "examples" / "index.json").read_text())["examples"]
    truth = np.asarray(Image.open(tmp_path / "examples" / entry["truth"]["prostate"]))
    assert (truth > 0).sum() == 18 * 18
    assert Image.open(tmp_path / "examples" / entry["picture"]).mode == "L"


@pytest.mark.parametrize("per_site", [0, 6])
def test_impossible_numbers_are_refused(
    data_root: Path, super_models: dict[str, Path], tmp_path: Path, per_site: int
) -> None:
    with pytest.raises(FedSuperError, match="1 to 5"):
        write_examples(tmp_path, CaseStore(data_root), loaded(super_models), per_site)


def test_the_choice_depends_on_ranks_alone() -> None:
    items = [Item(f"i{n:02d}", Path("x"), None, "c") for n in range(11)]
    scores = {item.name: float(n) ** 3 for n, item in enumerate(items)}
    assert [(c.item.name, c.place) for c in choose(items, scores, 3)] == [
        ("i05", "median"), ("i00", "worst"), ("i09", "90th percentile")]  # fmt: skip
    assert [c.item.name for c in choose(items[:1], scores, 3)] == ["i00"]
    assert choose(items, {}, 2) == []


@settings(max_examples=60, deadline=None)
@given(arrays(bool, st.tuples(st.just(2), st.integers(8, 40), st.integers(8, 40))))
def test_the_window_is_a_square_inside_the_image_around_every_mask_that_fits(masks: np.ndarray) -> None:
    top, left, side = crop_window(masks)
    height, width = masks.shape[1:]
    assert 0 < side <= min(height, width)
    assert 0 <= top <= height - side and 0 <= left <= width - side
    rows, columns = np.flatnonzero(masks.any(axis=(0, 2))), np.flatnonzero(masks.any(axis=(0, 1)))
    if len(rows) and max(np.ptp(rows), np.ptp(columns)) < min(height, width) / 2:
        assert masks[:, top : top + side, left : left + side].sum() == masks.sum()


def test_outlines_follow_the_mask() -> None:
    mask = np.zeros((10, 10), dtype=bool)
    mask[2:6, 3:8] = True
    numbers = [tuple(map(float, pair.split())) for pair in outline_path(mask).strip("MZ").split("L")]
    assert len(numbers) == 8  # four sides, four cut corners
    assert min(x for x, _ in numbers) == 3.0 and max(x for x, _ in numbers) == 8.0
    assert min(y for _, y in numbers) == 2.0 and max(y for _, y in numbers) == 6.0


def test_outlines_of_nothing_everything_and_holes() -> None:
    assert outline_path(np.zeros((5, 5), dtype=bool)) == ""
    assert outline_path(np.ones((5, 5), dtype=bool)).count("M") == 1
    ring = np.ones((9, 9), dtype=bool)
    ring[3:6, 3:6] = False
    assert outline_path(ring).count("M") == 2


def test_pictures_of_photographs_and_of_scans() -> None:
    photograph = np.full((3, 4, 5), 128.0, dtype=np.float32)
    assert to_picture(photograph).shape == (4, 5, 3) and to_picture(photograph).max() == 128
    scan = np.linspace(-900, 2400, 20, dtype=np.float32).reshape(1, 4, 5)
    assert to_picture(scan).shape == (4, 5)
    assert (to_picture(scan).min(), to_picture(scan).max()) == (0, 255)
    assert to_picture(np.zeros((1, 4, 5), dtype=np.float32)).max() == 0


def test_a_map_of_the_selectors_features(data_root: Path, super_models: dict[str, Path], tmp_path: Path) -> None:
    write_features(tmp_path, CaseStore(data_root), loaded(super_models))
    points = read_features(tmp_path, "fedsm")
    assert {site: len(places) for site, places in points.items()} == {"amber": 4, "birch": 4}
    first = (tmp_path / "features.csv").read_bytes()
    write_features(tmp_path, CaseStore(data_root), loaded(super_models))
    assert (tmp_path / "features.csv").read_bytes() == first
    assert not read_features(tmp_path, "local")
    write_features(tmp_path / "none", CaseStore(data_root), loaded({"local": super_models["local"]}))
    assert not (tmp_path / "none").exists()


def test_the_loss_surface_is_lowest_near_a_trained_model(tiny_root: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "run"
    keys = ["rounds=6", "image_size=32", "model.channels=[4,8]", "optimizer.lr=0.02", "loss=dice"]
    call = ["compare", "--data", str(tiny_root), "--methods", "centralized", "--out", str(out)]
    assert main([*call, "--with", "loss-surface", *(part for key in keys for part in ("--set", key))]) == 0
    found = json.loads((out / "loss_surface.json").read_text())
    losses = found["losses"]["centralized"]
    assert len(losses) == len(found["distances"]) and found["distances"][len(losses) // 2] == pytest.approx(0, abs=1e-6)
    assert losses[len(losses) // 2] < losses[0] and losses[len(losses) // 2] < losses[-1]
    write_report([out], tmp_path / "report.html")
    assert 'id="part-1-surface"' in (tmp_path / "report.html").read_text()
