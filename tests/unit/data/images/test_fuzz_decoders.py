"""Damaged files of every format: they are read, or refused in one line; nothing else ever leaves the readers."""

from __future__ import annotations

import gzip
import json
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import nibabel
import numpy as np
import pytest
from data_roots import RETINA, disc_label, png_bytes, tiff16_bytes
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from fedsuper.data.images.io import is_picture, read_image, read_label
from fedsuper.data.layout import Item, scan_site
from fedsuper.data.splits import split_problems
from fedsuper.data.task import Task, read_task
from fedsuper.errors import FedSuperError


@cache
def sound(ending: str) -> bytes:
    random = np.random.default_rng(0)
    if ending in (".nii", ".nii.gz"):
        data = nibabel.Nifti1Image(random.integers(0, 9, (6, 5, 4), dtype=np.int16), np.diag([1.0, 1, 2, 1])).to_bytes()
        return gzip.compress(data) if ending == ".nii.gz" else data
    if ending == ".16.png":
        return png_bytes(random.integers(0, 65536, (6, 5, 3), dtype=np.uint16))
    if ending == ".16.tif":
        return tiff16_bytes(random.integers(0, 65536, (6, 5, 3), dtype=np.uint16), "<")
    buffer = BytesIO()
    kind = {".png": "PNG", ".jpg": "JPEG", ".tif": "TIFF", ".bmp": "BMP", ".lzw.tif": "TIFF"}[ending]
    options = {"compression": "tiff_lzw"} if "lzw" in ending else {}
    Pillow.fromarray(disc_label((16, 12))).convert("RGB").save(buffer, format=kind, **options)
    return buffer.getvalue()


@settings(max_examples=60, deadline=None)
@given(
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=6),
    keep=st.one_of(st.just(1.0), st.floats(0, 1)),
)
@pytest.mark.parametrize(
    "ending", [".png", ".16.png", ".jpg", ".tif", ".lzw.tif", ".16.tif", ".bmp", ".nii", ".nii.gz"]
)
def test_a_damaged_file_is_read_or_refused(ending: str, changes: list[tuple[float, int]], keep: float) -> None:
    data = bytearray(sound(ending))
    for place, value in changes:
        data[int(place * len(data))] = value
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"damaged{ending}"
        path.write_bytes(data[: int(len(data) * keep)])
        for reader in (is_picture, read_image, read_label):
            try:
                result = reader(path)
            except FedSuperError as problem:
                assert "\n" not in str(problem)
                continue
            if reader is read_image:
                assert np.isfinite(result.array).all() and result.array.ndim == 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=50, deadline=None)
@given(task=JSON, channels=JSON, regions=JSON | st.dictionaries(st.sampled_from(["disc", "cup", "mean"]), JSON))
def test_any_task_object_is_taken_or_refused(task: object, channels: object, regions: object) -> None:
    try:
        read = Task.from_json({"task": task, "channels": channels, "regions": regions})
    except FedSuperError:
        return
    assert Task.from_json(read.to_json()) == read


@settings(max_examples=100, deadline=None)
@given(text=st.binary(max_size=60) | st.text(max_size=60).map(str.encode) | JSON.map(json.dumps).map(str.encode))
def test_any_text_file_is_taken_or_refused(text: bytes) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "dataset.json").write_bytes(text)
        (folder / "cases.csv").write_bytes(b"name,case\n" + text)
        (folder / "images").mkdir()
        (folder / "images" / "a.png").write_bytes(b"")
        for problem in scan_site(folder, require_labels=False).problems:
            assert "\n" not in str(problem) and str(problem).isprintable()
        try:
            assert read_task(folder).to_json().keys() == RETINA.keys()
        except FedSuperError as problem:
            assert str(problem).isprintable()


@settings(max_examples=150, deadline=None)
@given(parts=st.dictionaries(st.sampled_from(["train", "val", "test", "x"]), JSON | st.lists(st.sampled_from("abc"))))
def test_any_splits_object_is_judged(parts: dict) -> None:
    items = [Item(name, Path(f"{name}.png"), None, f"p{index // 2}") for index, name in enumerate("abc")]
    problems = split_problems(Path("splits.json"), parts, items)
    if not problems:
        assert set(parts) == {"train", "val", "test"}
        homes = [part for part in parts for name in parts[part] if name in ("a", "b")]
        assert len(set(homes)) <= 1
