"""NRRD and MetaImage files are images and labels like NIfTI: read, checked, trained on, predicted, in place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813 (the name its own documents use)
from data_roots import prostate_root

from fedsuper.data.dataset import load_samples
from fedsuper.data.doctor.examine import examine
from fedsuper.data.images.io import images_of_folder, read_image, read_label
from fedsuper.data.images.masks import mask_suffix, write_mask
from fedsuper.data.layout import list_items, scan_site
from fedsuper.data.preprocess import Preprocess
from fedsuper.data.problems import DataProblem
from fedsuper.data.task import read_task

ENDINGS = (".nrrd", ".mha", ".mhd")
ANGLE = np.radians(20)
DIRECTION = (np.cos(ANGLE), -np.sin(ANGLE), 0, np.sin(ANGLE), np.cos(ANGLE), 0, 0, 0, -1)


def save(path: Path, zyx: np.ndarray, compressed: bool = False, vector: bool = False) -> Path:
    image = sitk.GetImageFromArray(zyx, isVector=vector)
    image.SetSpacing((0.5, 0.6, 3.0))
    image.SetOrigin((-12.0, 30.0, 7.0))
    image.SetDirection(DIRECTION)
    path.parent.mkdir(parents=True, exist_ok=True)
    sitk.WriteImage(image, str(path), useCompression=compressed)
    return path


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_same_volume_as_nifti(tmp_path: Path, ending: str, compressed: bool) -> None:
    voxels = np.random.default_rng(0).integers(-500, 500, (5, 12, 10), dtype=np.int16)
    image = read_image(save(tmp_path / f"scan{ending}", voxels, compressed))
    reference = read_image(save(tmp_path / "reference.nii.gz", voxels))
    np.testing.assert_array_equal(image.array, reference.array)
    np.testing.assert_allclose(image.affine, reference.affine, atol=1e-4)
    assert image.kind == "itk" and image.frame == reference.frame and image.native_shape == reference.native_shape


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_mask_comes_back_on_the_same_grid(tmp_path: Path, ending: str) -> None:
    image = read_image(save(tmp_path / f"scan{ending}", np.arange(600, dtype=np.int16).reshape(5, 12, 10)))
    assert mask_suffix(image.path) == ".nii.gz"
    mask = (image.array[:, 0] > 300).astype(np.uint8)
    write_mask(tmp_path / "mask.nii.gz", mask, image)
    np.testing.assert_array_equal(read_label(tmp_path / "mask.nii.gz", image), mask)
    written = sitk.ReadImage(str(tmp_path / "mask.nii.gz"))
    assert written.GetSize() == (10, 12, 5)
    np.testing.assert_allclose(written.GetOrigin(), (-12, 30, 7), atol=1e-4)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_site_of_such_files_passes_the_doctor_and_loads(tmp_path: Path, ending: str) -> None:
    root = prostate_root(tmp_path / "root")
    for item in list_items(root / "x", require_labels=True):
        for path in (item.image, item.label):
            assert path is not None
            sitk.WriteImage(sitk.ReadImage(str(path)), str(path.with_name(item.name + ending)))
            path.unlink()
    assert [finding for finding in examine(root).findings if finding.level == "error"] == []
    assert scan_site(root / "x", require_labels=True).ignored == []
    items = list_items(root / "x", require_labels=True)
    assert len(load_samples(root / "x", items, read_task(root), Preprocess(image_size=16), tmp_path / "cache")) == 15
    assert len(images_of_folder(root / "x" / "images")) == 3


def test_the_cache_notices_new_voxels_beside_an_old_header(tmp_path: Path) -> None:
    root = prostate_root(tmp_path / "root")
    for item in list_items(root / "x", require_labels=True):
        sitk.WriteImage(sitk.ReadImage(str(item.image)), str(item.image.with_name(f"{item.name}.mhd")))
        item.image.unlink()
    items, task = list_items(root / "x", require_labels=True), read_task(root)
    before = load_samples(root / "x", items, task, Preprocess(image_size=16), tmp_path / "cache")
    raw = items[0].image.with_suffix(".raw")
    raw.write_bytes(raw.read_bytes()[::-1])
    after = load_samples(root / "x", items, task, Preprocess(image_size=16), tmp_path / "cache")
    assert not before.images.equal(after.images)


def test_colors_are_channels(tmp_path: Path) -> None:
    voxels = np.random.default_rng(0).integers(0, 255, (3, 12, 10, 3), dtype=np.uint8)
    assert read_image(save(tmp_path / "scan.nrrd", voxels, vector=True)).array.shape[:2] == (3, 3)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("ending", [".nrrd", ".mha"])
def test_a_torn_file_is_one_line(tmp_path: Path, ending: str, compressed: bool) -> None:
    voxels = np.random.default_rng(0).integers(-500, 500, (5, 12, 10), dtype=np.int16)
    path = save(tmp_path / f"scan{ending}", voxels, compressed)
    whole = path.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 20):
        path.write_bytes(whole[:length])
        with pytest.raises(DataProblem) as problem:
            read_image(path)
        assert "\n" not in str(problem.value) and ".cxx" not in str(problem.value)


@pytest.mark.parametrize("ending", [".nrrd", ".mha"])
def test_a_spoiled_byte_in_compressed_voxels_is_found(tmp_path: Path, ending: str) -> None:
    voxels = np.random.default_rng(0).integers(-500, 500, (5, 12, 10), dtype=np.int16)
    path = save(tmp_path / f"scan{ending}", voxels, compressed=True)
    spoiled = bytearray(path.read_bytes())
    spoiled[-300] ^= 0x55
    path.write_bytes(spoiled)
    with pytest.raises(DataProblem, match="cannot be read"):
        read_image(path)


@pytest.mark.parametrize("name", ["/etc/passwd", "LIST", "%d 1 9 1"])
def test_a_header_may_only_name_its_neighbor(tmp_path: Path, name: str) -> None:
    path = save(tmp_path / "scan.mhd", np.zeros((3, 12, 10), np.uint8))
    path.write_text(path.read_text().replace("ElementDataFile = scan.raw", f"ElementDataFile = {name}"))
    with pytest.raises(DataProblem, match="not one file beside it"):
        read_image(path)


def test_a_header_that_claims_terabytes_is_refused_unread(tmp_path: Path) -> None:
    path = save(tmp_path / "scan.nrrd", np.zeros((3, 12, 10), np.uint8))
    path.write_bytes(path.read_bytes().replace(b"sizes: 10 12 3", b"sizes: 30000 30000 3000"))
    with pytest.raises(DataProblem, match="values"):
        read_image(path)
