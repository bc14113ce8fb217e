"""The facts the synthetic hospitals are judged by: fair learning curves, images cut alike, tables that hold them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fedsuper.config.reading import parse_study
from fedsuper.data.prepared.samples import Samples
from fedsuper.studies import synthetic
from fedsuper.studies.facts import learning_curve as curves
from fedsuper.studies.facts.disc_crops import SIDE, write_crops
from fedsuper.studies.facts.root_samples import few_slices


def patients(count: int, images: int) -> Samples:
    """Images that hold their own row number, `images` a patient; the last of a patient shows nothing."""
    rows = count * images
    pixels = torch.arange(rows, dtype=torch.float32).view(rows, 1, 1, 1).expand(rows, 1, 16, 16).clone()
    masks = torch.ones(rows, 1, 16, 16, dtype=torch.uint8)
    masks[images - 1 :: images] = 0
    return Samples(pixels, masks, [str(row) for row in range(rows)], [f"p{row // images}" for row in range(rows)])


def test_a_curve_trains_on_other_patients_than_it_scores_and_on_many_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    trained, scored = [], []
    monkeypatch.setattr(curves, "fit", lambda samples, *_: trained.append(set(samples.cases)))
    monkeypatch.setattr(curves, "mean_dice", lambda net, test, _: scored.append(set(test.cases)) or 0.5)
    study = parse_study({"method": "local", "rounds": 1, "image_size": 32, "model": {"channels": [4, 8]}})
    curve = curves.learning_curve(patients(12, 4), study, steps=1, held=8, draws=2)
    assert curve.counts == [4, 8, 16, 32] and curve.means == [0.5] * 4 and len(curve.draws) == 2
    assert all(not seen & test for seen, test in zip(trained, scored, strict=True))
    assert [len(seen) for seen in trained[:2]] == [4, 8], "one image of every patient before the second of any"
    assert trained[0] <= trained[1] <= trained[2] and scored[0] == scored[1] != scored[4]


def test_a_curve_does_not_begin_with_the_lowest_slice_of_every_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the files' order the first image of each patient would be his apex, and a net would never see a base."""
    trained: list[list[int]] = []
    monkeypatch.setattr(curves, "fit", lambda samples, *_: trained.append([int(n) % 4 for n in samples.names]))
    monkeypatch.setattr(curves, "mean_dice", lambda *_: 0.5)
    study = parse_study({"method": "local", "rounds": 1, "image_size": 32, "model": {"channels": [4, 8]}})
    curves.learning_curve(patients(40, 4), study, steps=1, held=8, draws=1)
    assert set(trained[3]) == {0, 1, 2, 3} and max(trained[3].count(place) for place in range(4)) < 20


def test_slices_are_few_and_show_something() -> None:
    chosen = few_slices(patients(3, 9), 4)
    assert len(chosen) == 12 and bool(chosen.masks.flatten(1).any(dim=1).all())
    assert {chosen.cases.count(case) for case in chosen.cases} == {4}


def test_the_mean_mask_is_scored_by_image() -> None:
    seen, other = patients(4, 1), patients(2, 1)
    seen.masks[:], other.masks[:] = 0, 0
    seen.masks[:3, :, :8], other.masks[0, :, :8], other.masks[1, :, 4:12] = 1, 1, 1
    assert curves.mean_mask_dice(seen, other) == pytest.approx((1 + 0.5) / 2)


def test_crops_hold_the_whole_disc_at_the_scale_of_the_real_ones(tmp_path: Path) -> None:
    images, labels = np.zeros((6, 100, 100, 3), np.uint8), np.zeros((6, 100, 100), np.uint8)
    labels[:, 40:70, 35:65], labels[:, 50:60, 45:55] = 1, 2
    write_crops(tmp_path, "site-1", [(images, labels)], seed=0)
    for path in (tmp_path / "site-1" / "labels").iterdir():
        disc = np.asarray(Image.open(path))
        assert set(np.unique(disc)) == {0, 1} and disc.sum() == 900
        assert disc.shape[0] == disc.shape[1] == pytest.approx(SIDE * 30, rel=0.1)


@pytest.mark.slow
def test_the_study_writes_curves_transfer_and_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("HELD", {"retina": 4}), ("SITES", 2), ("LEARNED_SITE", 0)):
        monkeypatch.setattr(synthetic, name, value)
    monkeypatch.setattr(synthetic, "COUNTS", (4, 8))
    monkeypatch.setattr(curves, "COUNTS", (4, 8))
    real = tmp_path / "real"
    write_crops(real, "a", synthetic.render(synthetic.eye_hospital(2), [9], 12, 64), seed=1)
    what = synthetic.Request(tmp_path / "out", {"retina": real}, steps=1, draws=1, images=8, tasks=("retina",))
    text = synthetic.run_synthetic(what)
    told = json.loads((tmp_path / "out" / "synthetic.json").read_text())["tasks"]["retina"]
    assert list(told["means"]) == ["real images", "synthetic, real", "synthetic, easy"]
    assert set(told["on_real_images"]) == {
        f"{difficulty}, {how}" for difficulty in ("real", "easy") for how in ("light", "strong", "mean mask")
    }
    assert all(f"{value:.3f}" in text for row in told["means"].values() for value in row.values())
    with Image.open(tmp_path / "out" / "retina.jpg") as picture:
        assert picture.size == (8 * synthetic.PIXELS, 4 * synthetic.PIXELS)
