"""The synthetic retina federation: reproducible bytes, valid labels, and the differences between sites it promises."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fedsuper.data.synthetic.drawing import Grid
from fedsuper.data.synthetic.federation_folders import share_out
from fedsuper.data.synthetic.retina import render, write_retina
from fedsuper.data.synthetic.retina_render import draw_eyes, draw_labels
from fedsuper.data.synthetic.retina_sites import HOSPITALS, Habit, hospital
from fedsuper.errors import FedSuperError


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def site_images(index: int, count: int = 24, size: int = 48) -> np.ndarray:
    return np.concatenate([images for images, _ in render(hospital(index), [5, index], count, size)])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("synth") / "retina"
    write_retina(out, images=240, size=48, seed=3, outside=True, difficulty="easy")
    return out


def test_layout_and_dataset_description(root: Path) -> None:
    assert json.loads((root / "dataset.json").read_text()) == {
        "task": "retina",
        "channels": 3,
        "regions": {"disc": [1, 2], "cup": [2]},
    }
    assert sorted(path.name for path in root.iterdir() if path.is_dir()) == [f"site-{n}" for n in range(1, 7)]
    for site in root.glob("site-*"):
        names = [sorted(path.name for path in (site / kind).iterdir()) for kind in ("images", "labels")]
        assert names[0] == names[1] and names[0]
    with Image.open(root / "site-1/images/0001.png") as image:
        assert image.mode == "RGB" and image.size == (48, 48)


def test_same_arguments_give_the_same_bytes_and_another_seed_does_not(root: Path, tmp_path: Path) -> None:
    write_retina(tmp_path / "again", images=240, size=48, seed=3, difficulty="easy")
    assert files_of(tmp_path / "again") == files_of(root)
    write_retina(tmp_path / "other", images=24, size=48, seed=4, difficulty="easy")
    one = "site-2/images/0001.png"
    assert (tmp_path / "other" / one).read_bytes() != (root / one).read_bytes()


def test_every_label_has_disc_and_cup(root: Path) -> None:
    for path in root.glob("*/labels/*.png"):
        assert set(np.unique(np.asarray(Image.open(path)))) == {0, 1, 2}, path


def test_the_cup_lies_inside_the_disc_with_rim_all_around() -> None:
    for index in range(8):
        eyes = draw_eyes(hospital(index).patients, 40, np.random.default_rng(index))
        labels = draw_labels(eyes, hospital(index).habit, Grid(128), np.random.default_rng(0))
        cup, background = labels == 2, labels == 0
        assert not (cup[:, 1:] & background[:, :-1]).any() and not (cup[:, :-1] & background[:, 1:]).any()
        assert not (cup[..., 1:] & background[..., :-1]).any() and not (cup[..., :-1] & background[..., 1:]).any()


def test_site_sizes_span_a_factor_of_ten(root: Path, tmp_path: Path) -> None:
    counts = [len(list((root / f"site-{n}/images").iterdir())) for n in range(1, 7)]
    assert sum(counts) == 240 and min(counts) >= 12
    wide = share_out(600, [site.share for site in HOSPITALS])
    assert sum(wide) == 600 and max(wide) >= 10 * min(wide)
    assert np.argsort(wide).tolist() == np.argsort([101, 195, 94, 460, 159, 800]).tolist()


@given(st.lists(st.floats(0.1, 1000), min_size=1, max_size=12), st.integers(12, 3000))
def test_sharing_out_loses_no_image_and_leaves_no_site_short(shares: list[float], total: int) -> None:
    counts = share_out(total, shares)
    assert sum(counts) == total
    assert min(counts) >= min(12, total // len(shares))


def test_sites_draw_the_cup_by_their_own_habit() -> None:
    grid = Grid(96)
    for site in HOSPITALS:
        eyes = draw_eyes(site.patients, 40, np.random.default_rng(1))
        drawn = draw_labels(eyes, site.habit, grid, np.random.default_rng(2))
        visible = draw_labels(eyes, Habit(unsteadiness=0.0), grid, np.random.default_rng(2))
        assert (drawn == 2).sum() / (visible == 2).sum() == pytest.approx(site.habit.cup**2, rel=0.06)
        assert (drawn > 0).sum() / (visible > 0).sum() == pytest.approx(site.habit.disc**2, rel=0.03)
    for one, other in ((2, 4), (3, 6)):
        assert abs(HOSPITALS[one - 1].habit.cup - HOSPITALS[other - 1].habit.cup) > 0.3


def test_sites_2_and_4_and_3_and_6_look_alike_and_5_is_far_from_all() -> None:
    """Distances between mean pictures, standardized per image as a net sees them."""

    def mean_picture(images: np.ndarray) -> np.ndarray:
        flat = images.reshape(len(images), -1).astype(float)
        return ((flat - flat.mean(1, keepdims=True)) / flat.std(1, keepdims=True)).mean(0)

    pictures = [mean_picture(site_images(index)) for index in range(6)]
    distance = {
        (one + 1, other + 1): float(np.sqrt(((pictures[one] - pictures[other]) ** 2).mean()))
        for one in range(6)
        for other in range(one + 1, 6)
    }
    nearest = sorted(distance, key=lambda pair: distance[pair])
    assert set(nearest[:2]) == {(2, 4), (3, 6)}
    from_others = {site: min(d for pair, d in distance.items() if site in pair) for site in range(1, 7)}
    assert max(from_others, key=lambda site: from_others[site]) == 5


def test_images_are_photographs_with_a_brighter_disc() -> None:
    for index in range(6):
        for images, labels in render(hospital(index), [0, index], 16, 64):
            green = images[..., 1].astype(float)
            for picture, label in zip(green, labels, strict=True):
                rows, columns = np.nonzero(label)
                top, bottom, left, right = rows.min() - 6, rows.max() + 7, columns.min() - 6, columns.max() + 7
                near = np.zeros_like(label, dtype=bool)
                near[max(top, 0) : bottom, max(left, 0) : right] = True
                rim, cup, around = picture[label == 1], picture[label == 2], picture[near & (label == 0)]
                assert cup.mean() > rim.mean() > around.mean()


def test_more_or_fewer_sites_than_six(tmp_path: Path) -> None:
    write_retina(tmp_path / "eight", sites=8, images=100, size=32, difficulty="easy")
    assert len(list((tmp_path / "eight").glob("site-*"))) == 8
    assert hospital(7) != hospital(1) and hospital(7) == hospital(7)
    write_retina(tmp_path / "two", sites=2, images=24, size=32, difficulty="easy")
    assert sum(1 for _ in (tmp_path / "two").glob("site-*/images/*.png")) == 24


def test_the_outside_hospital_has_its_own_root(root: Path) -> None:
    outside = root.with_name("retina-outside")
    assert [path.name for path in outside.iterdir() if path.is_dir()] == ["outside"]
    assert (outside / "dataset.json").read_bytes() == (root / "dataset.json").read_bytes()
    assert len(list((outside / "outside/images").iterdir())) == 40


def test_progress_counts_to_the_end(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    write_retina(tmp_path / "a", sites=2, images=40, size=32, outside=True, progress=lambda n, m: seen.append((n, m)))
    assert seen == sorted(seen) and seen[-1] == (80, 80)


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_retina(tmp_path / "a", sites=2, images=24, size=32, progress=stop, difficulty="easy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "word"),
    [({"sites": 0}, "--sites"), ({"images": 7}, "--images"), ({"size": 8}, "--size"), ({"seed": -1}, "--seed")],
)
def test_arguments_out_of_range_are_one_clear_line(tmp_path: Path, wrong: dict[str, int], word: str) -> None:
    with pytest.raises(FedSuperError, match=word) as caught:
        write_retina(tmp_path / "a", **{"sites": 2, "images": 24, **wrong}, difficulty="easy")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "a").exists()


def test_an_existing_data_root_is_not_overwritten(root: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_retina(tmp_path / "empty", sites=2, images=24, size=32, difficulty="easy")
    with pytest.raises(FedSuperError, match="not an empty folder"):
        write_retina(tmp_path / "empty", sites=2, images=24, size=32, difficulty="easy")


def test_six_hundred_images_of_128_pixels_take_less_than_ten_seconds(tmp_path: Path) -> None:
    """A quarter of the work, in processor seconds; five times the promise, for tests run on slower machines too."""
    start = time.process_time()
    write_retina(tmp_path / "a", images=150, size=128, difficulty="easy")
    assert time.process_time() - start < 5 * 2.5
