"""Samples in memory, and their cache on disk."""

from __future__ import annotations

import os
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch
from data_roots import disc_label, prostate_root, retina_root, write_picture

from fedsuper.data import dataset
from fedsuper.data.dataset import concat, load_samples
from fedsuper.data.images.io import read_image, read_label
from fedsuper.data.layout import list_items
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.preprocess import Preprocess, prepare_image, prepare_label
from fedsuper.data.task import Task, read_task
from fedsuper.errors import FedSuperError


@pytest.fixture
def eyes(tmp_path: Path) -> tuple[Path, Task]:
    root = retina_root(tmp_path / "root", sites=("a",))
    return root / "a", read_task(root)


def same(first: Samples, second: Samples) -> bool:
    return (
        torch.equal(first.images, second.images)
        and torch.equal(first.masks, second.masks)
        and first.names == second.names
        and first.cases == second.cases
    )


def test_pictures(eyes: tuple[Path, Task]) -> None:
    folder, task = eyes
    (folder / "cases.csv").write_text("name,case\n" + "".join(f"eye{i},p{i // 2}\n" for i in range(4)))
    samples = load_samples(folder, list_items(folder, True), task, Preprocess(image_size=16))
    assert samples.images.shape == (4, 3, 16, 16) and samples.images.dtype == torch.float32
    assert samples.masks.shape == (4, 2, 16, 16) and samples.masks.dtype == torch.uint8
    assert samples.names == [f"eye{i}" for i in range(4)] and samples.cases == ["p0", "p0", "p1", "p1"]
    assert len(samples) == 4


def test_volumes_are_slices_in_order(tmp_path: Path) -> None:
    root = prostate_root(tmp_path)
    task, folder = read_task(root), root / "x"
    samples = load_samples(folder, list_items(folder, True), task, Preprocess(image_size=16, slices=3))
    assert samples.images.shape == (15, 3, 16, 16)
    assert samples.names[:6] == ["case0#0000", "case0#0001", "case0#0002", "case0#0003", "case0#0004", "case1#0000"]
    assert samples.cases[4:6] == ["case0", "case1"]
    image = read_image(folder / "images" / "case1.nii.gz")
    label = read_label(folder / "labels" / "case1.nii.gz", image)
    assert torch.equal(samples.images[5:10], prepare_image(image, Preprocess(image_size=16, slices=3), 1))
    assert torch.equal(samples.masks[5:10], prepare_label(label, task.regions, Preprocess(image_size=16)))


def test_nothing_to_load_and_nothing_to_join_are_said(eyes: tuple[Path, Task]) -> None:
    folder, task = eyes
    with pytest.raises(FedSuperError, match="has no images in this part"):
        load_samples(folder, [], task, Preprocess(image_size=16))
    items = list_items(folder, True)
    small, large = (load_samples(folder, items, task, Preprocess(image_size=size)) for size in (8, 16))
    with pytest.raises(FedSuperError, match="cannot be joined"):
        concat([small, large])
    assert len(concat([small, small])) == 8


def test_the_cache_gives_the_same_and_reads_nothing(eyes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, task = eyes
    items, cache = list_items(folder, True), tmp_path / "cache"
    plain = load_samples(folder, items, task, Preprocess(image_size=16))
    first = load_samples(folder, items, task, Preprocess(image_size=16), cache)

    def refuse(*_: object) -> None:
        raise AssertionError("a cached item was decoded again")

    monkeypatch.setattr(dataset, "_prepare", refuse)
    second = load_samples(folder, items, task, Preprocess(image_size=16), cache)
    assert same(plain, first) and same(plain, second)


def test_a_changed_file_or_setting_misses_the_cache(eyes, tmp_path: Path) -> None:
    folder, task = eyes
    items, cache = list_items(folder, True), tmp_path / "cache"
    load_samples(folder, items, task, Preprocess(image_size=16), cache)
    changed = load_samples(folder, items, task, Preprocess(image_size=16, normalize="minmax"), cache)
    assert float(changed.images.min()) == 0
    write_picture(folder / "labels" / "eye1.png", np.roll(disc_label((32, 32)), 7, axis=1))
    os.utime(folder / "labels" / "eye1.png", ns=(1, 1))
    again = load_samples(folder, items, task, Preprocess(image_size=16), cache)
    assert same(again, load_samples(folder, items, task, Preprocess(image_size=16)))
    other = Task(task.name, task.channels, {"cup": (2,), "disc": (1, 2)})
    assert torch.equal(load_samples(folder, items, other, Preprocess(image_size=16), cache).masks, again.masks.flip(1))


@pytest.mark.parametrize("damage", [b"", b"torn", None])
def test_a_torn_entry_is_built_again(eyes, tmp_path: Path, damage: bytes | None) -> None:
    folder, task = eyes
    items, cache = list_items(folder, True), tmp_path / "cache"
    good = load_samples(folder, items, task, Preprocess(image_size=16), cache)
    for entry in cache.iterdir():
        entry.write_bytes(entry.read_bytes()[:-100] if damage is None else damage)
    assert same(load_samples(folder, items, task, Preprocess(image_size=16), cache), good)
    assert same(load_samples(folder, items, task, Preprocess(image_size=16), cache), good)


def test_the_cache_keeps_to_its_limit_and_drops_the_oldest(eyes, tmp_path: Path) -> None:
    folder, task = eyes
    items, cache = list_items(folder, True), tmp_path / "cache"
    # 0.9 MB an item: two of four fit
    load_samples(folder, items, task, Preprocess(image_size=256), cache, cache_limit_mb=2)
    kept = list(cache.glob("*.safetensors"))
    assert len(kept) == 2 and sum(entry.stat().st_size for entry in kept) <= 2 * 2**20
    load_samples(folder, items, task, Preprocess(image_size=256), cache, cache_limit_mb=0)
    assert not list(cache.iterdir())


def test_training_stops_at_nan_and_at_a_shifted_label(tmp_path: Path) -> None:
    root = prostate_root(tmp_path)
    task, folder = read_task(root), root / "x"
    path = folder / "labels" / "case0.nii.gz"
    label = nibabel.load(path)
    moved = label.affine.copy()
    moved[2, 3] += 3
    nibabel.Nifti1Image(np.asarray(label.dataobj), moved).to_filename(path)
    with pytest.raises(FedSuperError, match=r"labels/case0\.nii\.gz: lies up to"):
        load_samples(folder, list_items(folder, True), task, Preprocess(image_size=16))


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(eyes, tmp_path: Path) -> None:
    folder, task = eyes
    items = list_items(folder, True)
    (tmp_path / "cache").write_text("a file where the folder should be")
    samples = load_samples(folder, items, task, Preprocess(image_size=16), tmp_path / "cache")
    assert same(samples, load_samples(folder, items, task, Preprocess(image_size=16)))
