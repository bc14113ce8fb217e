"""Hospitals of difficulty `real`: what switches change and leave alone, valid labels, two kinds of hospital outside."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fedsuper.cli.entry import main
from fedsuper.data.synthetic.drawing import Grid
from fedsuper.data.synthetic.eye import eye_sites
from fedsuper.data.synthetic.eye.eye_sites import eye_hospital
from fedsuper.data.synthetic.eye.optic_disc import around, draw_discs
from fedsuper.data.synthetic.pelvis.men import draw_man
from fedsuper.data.synthetic.pelvis.pelvis_sites import PelvisMix, pelvis_hospital
from fedsuper.data.synthetic.prostate import render as render_volume
from fedsuper.data.synthetic.prostate import write_prostate
from fedsuper.data.synthetic.retina import render, write_retina
from fedsuper.data.synthetic.shift import PARTS, Amounts, parse_shift, towards
from fedsuper.errors import FedSuperError


def pictures(site: eye_sites.EyeHospital, count: int = 16, size: int = 48) -> tuple[np.ndarray, np.ndarray]:
    stacks = list(render(site, [3], count, size))
    return np.concatenate([images for images, _ in stacks]), np.concatenate([labels for _, labels in stacks])


@given(st.floats(0, 2))
def test_an_amount_moves_from_what_all_have_to_the_sites_own(amount: float) -> None:
    common, own = eye_sites.COMMON_CAMERA, eye_hospital(4).camera
    moved = towards(common, own, amount)
    assert moved.noise == pytest.approx(common.noise + amount * (own.noise - common.noise))
    assert moved.tint[2] == pytest.approx(common.tint[2] + amount * (own.tint[2] - common.tint[2]))


def test_nothing_shifted_makes_every_hospital_the_same() -> None:
    first, *others = (eye_hospital(index, ()) for index in range(6))
    assert all((one.camera, one.mix, one.hand) == (first.camera, first.mix, first.hand) for one in others)
    assert len({eye_hospital(index).camera for index in range(14)}) == 14


def test_each_switch_changes_its_part_alone() -> None:
    """The same eyes: a camera changes pictures, a habit changes labels, and neither the other."""
    for index in (1, 4):
        images, labels = pictures(eye_hospital(index, ()))
        other_images, same_labels = pictures(eye_hospital(index, ("camera",)))
        same_images, other_labels = pictures(eye_hospital(index, ("habit",)))
        assert np.array_equal(labels, same_labels) and not np.array_equal(images, other_images)
        assert np.array_equal(images, same_images) and not np.array_equal(labels, other_labels)


def test_a_habit_changes_masks_of_the_prostate_and_not_the_scan() -> None:
    plain, drawn = (render_volume(pelvis_hospital(1, shift), [3], 40) for shift in ((), ("habit",)))
    assert np.array_equal(plain[0], drawn[0]) and drawn[1].sum() > plain[1].sum()


def test_cups_lie_in_discs_and_discs_vary_widely() -> None:
    sizes = []
    for index in range(6):
        _, labels = pictures(eye_hospital(index), 12, 128)
        cup, background = labels == 2, labels == 0
        assert not (cup[:, 1:] & background[:, :-1]).any() and not (cup[..., 1:] & background[..., :-1]).any()
        assert (labels > 0).any(axis=(1, 2)).all() and cup.any(axis=(1, 2)).mean() > 0.97
        sizes.append((labels > 0).mean(axis=(1, 2)))
    assert np.quantile(np.concatenate(sizes), 0.95) > 2.5 * np.quantile(np.concatenate(sizes), 0.05)


def test_an_outline_bends_without_moving_or_growing() -> None:
    discs = draw_discs(eye_sites.COMMON_MIX, 12, np.random.default_rng(0))
    inside = around(discs, Grid(200)).disc < 1
    area = inside.mean(axis=(1, 2))
    assert area == pytest.approx(np.pi * discs.radius**2 * discs.stretch, rel=0.05)


def test_a_hospital_outside_is_near_a_site_or_unlike_all() -> None:
    def color(site: eye_sites.EyeHospital) -> np.ndarray:
        return pictures(site)[0].mean(axis=(0, 1, 2)) / 255

    sites = [color(eye_hospital(index)) for index in range(6)]
    nearest = {
        kind: min(float(np.abs(color(site) - one).max()) for one in sites) for kind, site in eye_sites.OUTSIDE.items()
    }
    assert nearest["near"] < 0.06 < 0.1 < nearest["unlike"]


def test_disease_is_as_frequent_as_the_case_mix_says() -> None:
    def men(mix: PelvisMix) -> list:
        return [draw_man(mix, np.random.default_rng(seed), balloon=False) for seed in range(60)]

    well, ill = men(PelvisMix(bleeding=0, bulges=0, weak_capsule=0)), men(PelvisMix(bleeding=1, bulges=3))
    assert not any(man.patches or man.bulges for man in well) and all(man.capsule == 1 for man in well)
    assert all(man.patches for man in ill) and np.mean([len(man.bulges) for man in ill]) > 1.5


@pytest.mark.parametrize("write", [write_retina, write_prostate], ids=["write_retina", "write_prostate"])
def test_bytes_repeat_and_the_layout_is_that_of_easy_hospitals(write: Callable[..., None], tmp_path: Path) -> None:
    for name, difficulty in (("one", "real"), ("two", "real"), ("easy", "easy")):
        write(tmp_path / name, 2, 12, size=32, outside="unlike", difficulty=difficulty)
    files = {
        name: {str(path.relative_to(tmp_path / name)): path.read_bytes() for path in (tmp_path / name).rglob("*.*")}
        for name in ("one", "two", "easy")
    }
    assert files["one"] == files["two"] and files["one"].keys() == files["easy"].keys()
    assert files["one"] != files["easy"]
    assert (tmp_path / "one-outside" / "outside").is_dir()


def test_the_command_takes_the_switches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["synth", "--task", "retina", "--sites", "2", "--images", "8", "--size", "32"]
    assert main([*common, "--out", str(tmp_path / "old"), "--outside"]) == 0
    assert (tmp_path / "old-outside").is_dir()
    assert main([*common, "--out", str(tmp_path / "none"), "--shift", "none", "--outside", "unlike"]) == 0
    with Image.open(tmp_path / "old/site-1/images/0001.png") as one, Image.open(
        tmp_path / "none/site-1/images/0001.png"
    ) as other:
        assert np.asarray(one).shape == (32, 32, 3) and not np.array_equal(np.asarray(one), np.asarray(other))
    capsys.readouterr()
    for wrong in (["--shift", "weather"], ["--outside", "far"], ["--difficulty", "hard"]):
        assert main([*common, "--out", str(tmp_path / "x"), *wrong]) == 2
        assert wrong[0] in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_switches_are_read() -> None:
    assert parse_shift("habit, camera") == ("habit", "camera") and parse_shift("none") == ()
    assert set(parse_shift(",".join(PARTS))) == set(PARTS)
    with pytest.raises(FedSuperError, match="--shift"):
        parse_shift("camera,weather")
    assert Amounts(1, 2, 3).only(("anatomy",)) == Amounts(0, 2, 0)


def test_two_thousand_images_of_256_pixels_take_about_a_minute() -> None:
    """A sixtieth of the work, in processor seconds; five times the promise, for tests run on slower machines too."""
    start = time.process_time()
    pictures(eye_hospital(3), 32, 256)
    assert time.process_time() - start < 5 * 1.0
