"""What single sets ask of their importer: views, raters, series, known bad cases, DICOM, a page of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from import_files import AFFINE, circle, drawing, gland, photograph, save, save_metaimage, save_nifti, volume
from import_trees import TREES
from PIL import Image

from fedsuper.data.images.io import read_image, read_label
from fedsuper.data.importers import SOURCES, import_dataset
from fedsuper.data.layout import Item, list_items
from fedsuper.errors import FedSuperError


def test_stereo_photographs_give_their_left_half(tmp_path):
    tree = TREES["rim-one-r3"](tmp_path / "raw")
    import_dataset("rim-one-r3", tmp_path / "raw", tmp_path / "root/site")
    stereo = np.asarray(Image.open(tree.image))
    written = np.asarray(Image.open(tmp_path / "root/site/images" / f"{tree.name}.png"))
    assert np.array_equal(written, stereo[:, :64])
    label = np.asarray(Image.open(tmp_path / "root/site/labels" / f"{tree.name}.png"))
    assert np.array_equal(label, circle(18).astype(int) + circle(8))


def test_riga_majority_survives_raters_that_cannot_be_told(tmp_path):
    folder = tmp_path / "raw/MESSIDOR"
    base = photograph(0, 160)
    save(folder / "image1prime.tif", base)
    for rater, radii in enumerate(((50, 20), (50, 20), (52, 22), (54, 24), (60,), ()), start=1):
        save(folder / f"image1-{rater}.tif", drawing(base, radii))
    import_dataset("riga", tmp_path / "raw", tmp_path / "root/site")
    label = np.asarray(Image.open(tmp_path / "root/site/labels/MESSIDOR-image1.png"))
    expected = circle(50, 160).astype(int) + circle(20, 160)  # three of the four usable raters cover these
    assert (label != expected).mean() < 0.01


def test_promise12_never_pairs_across_folders(tmp_path):
    """The test cases carry the names of training cases: their images must not get training labels."""
    TREES["promise12"](tmp_path / "raw")
    save_metaimage(tmp_path / "raw/TestData/Case00.mhd", volume(9))
    result = import_dataset("promise12", tmp_path / "raw", tmp_path / "root/site")
    assert [skipped.name for skipped in result.skipped] == ["Case00"]
    image = read_image(tmp_path / "root/site/images/Case00.nii.gz")
    assert np.array_equal(image.frame.to_file(image.array[:, 0]), volume(0))


def test_prostatex_takes_the_series_the_mask_was_drawn_on(tmp_path):
    TREES["prostatex"](tmp_path / "raw")
    folder = tmp_path / "raw/Files/prostate"
    save_nifti(folder / "Images/ProstateX-0001_t2_tse_tra_1.nii.gz", volume(9))
    (folder / "image_list.csv").write_text("T2\nProstateX-0000_t2_tse_tra_4\nProstateX-0001_t2_tse_tra_10\n")
    import_dataset("prostatex", tmp_path / "raw", tmp_path / "root/site")
    image = read_image(tmp_path / "root/site/images/ProstateX-0001.nii.gz")
    assert np.array_equal(image.frame.to_file(image.array[:, 0]), volume(1))


def test_known_bad_cases_are_left_out(tmp_path):
    for name in ("ProstateDx-01-0055", "ProstateDx-01-0006"):
        save_nifti(tmp_path / "raw/Image" / f"{name}.nii.gz", volume(0))
        save_nifti(tmp_path / "raw/Mask" / f"{name}.nii.gz", gland((1, 2)))
    (skipped,) = import_dataset("nci-isbi", tmp_path / "raw", tmp_path / "root/site").skipped
    assert skipped.name == "ProstateDx-01-0055"


def save_series(folder: Path, voxels: np.ndarray) -> None:
    """A DICOM series of `voxels` under AFFINE, its files in shuffled order."""
    pydicom = pytest.importorskip("pydicom")
    folder.mkdir(parents=True)
    lps = np.diag([-1, -1, 1, 1]) @ AFFINE
    across, down = lps[:3, 0] / 0.6, lps[:3, 1] / 0.6
    for z in range(voxels.shape[2]):
        slice_ = pydicom.Dataset()
        slice_.file_meta = pydicom.dataset.FileMetaDataset()
        slice_.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
        slice_.SOPClassUID = slice_.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.4"
        slice_.SOPInstanceUID = slice_.file_meta.MediaStorageSOPInstanceUID = pydicom.uid.generate_uid()
        slice_.SeriesInstanceUID = "1.2.3.4"
        slice_.Modality, slice_.InstanceNumber = "MR", z + 1
        slice_.Rows, slice_.Columns = voxels.shape[1], voxels.shape[0]
        slice_.PixelSpacing, slice_.SliceThickness = [0.6, 0.6], 3.0
        slice_.ImageOrientationPatient = [*across, *down]
        slice_.ImagePositionPatient = list((lps @ [0, 0, z, 1])[:3])
        slice_.SamplesPerPixel, slice_.PhotometricInterpretation = 1, "MONOCHROME2"
        slice_.BitsAllocated = slice_.BitsStored = 16
        slice_.HighBit, slice_.PixelRepresentation = 15, 0
        slice_.PixelData = voxels[:, :, z].T.astype("<u2").tobytes()
        slice_.save_as(folder / f"Image{(z * 5) % voxels.shape[2]:05d}.dcm", enforce_file_format=True)


def assert_same_slices(item: Item, folder: Path) -> None:
    """The item shows what volume(0) and gland() under AFFINE show, whatever order its file stores them in."""
    image, expected = read_image(item.image), read_image(save_nifti(folder / "image.nii.gz", volume(0)))
    assert np.array_equal(image.array, expected.array) and np.allclose(image.spacing, expected.spacing)
    assert np.array_equal(read_label(item.label, image), read_label(save_nifti(folder / "label.nii.gz", gland())))


def test_i2cvb_from_dicom(tmp_path):
    for scanner, patient in (("GE", "Patient 383"), ("Siemens", "Patient 799"), ("GE", "Patient 428260")):
        save_series(tmp_path / "raw" / scanner / patient / "T2W", volume(0))
        save_series(tmp_path / "raw" / scanner / patient / "GT/prostate", gland((255,)))
    result = import_dataset("i2cvb:ge", tmp_path / "raw", tmp_path / "root/site")
    assert [skipped.name for skipped in result.skipped] == ["Patient_428260"]
    (item,) = list_items(tmp_path / "root/site", True)
    assert_same_slices(item, tmp_path)


def test_nci_isbi_from_dicom_and_nrrd(tmp_path):
    tree = TREES["nci-isbi"](tmp_path / "raw")
    shutil.rmtree(tmp_path / "raw/Image")
    for name in tree.names:
        save_series(tmp_path / "raw/manifest/Prostate-3T" / name / "1.3.6.1/1.3.6.2", volume(0))
    import_dataset("nci-isbi", tmp_path / "raw", tmp_path / "root/site")
    item = list_items(tmp_path / "root/site", True)[0]
    assert_same_slices(item, tmp_path)


def test_dicom_without_the_extra_is_one_line(tmp_path, monkeypatch):
    for part in ("T2W", "GT/prostate"):
        (tmp_path / "raw/GE/Patient 383" / part).mkdir(parents=True)
        (tmp_path / "raw/GE/Patient 383" / part / "Image00000.dcm").write_bytes(b"not DICOM")
    monkeypatch.setitem(__import__("sys").modules, "pydicom", None)
    with pytest.raises(FedSuperError, match=r"pydicom is not installed; pip install 'fedsuper\[dicom\]'"):
        import_dataset("i2cvb", tmp_path / "raw", tmp_path / "root/site")


def test_every_set_has_its_page():
    pages = Path(__file__).parents[4] / "docs/reference/datasets"
    index = (pages / "index.md").read_text(encoding="utf-8")
    for source, importer in SOURCES.items():
        page = (pages / f"{source}.md").read_text(encoding="utf-8")
        assert f"({source}.md)" in index
        assert f"fedsuper import {source}" in page
        public = ["## Where to get it", "## License", "## How to cite"] if importer.task else []
        for heading in ("## Expected folder", "## What is done", *public):
            assert heading in page, (source, heading)
        assert all(part in page for part in importer.parts), source
