"""DICOM series: sorted, placed, rescaled; masks out as NIfTI and as DICOM SEG. Needs the extra `dicom`."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest
from dicom_files import ORIENTATION, RANDOM, VOXELS, new_file, write_photograph, write_series

from fedsuper.data.dataset import load_samples
from fedsuper.data.doctor.examine import examine
from fedsuper.data.images.io import images_of_folder, read_image, read_label
from fedsuper.data.images.masks import MASK_FORMATS, mask_suffix, write_mask
from fedsuper.data.layout import list_items
from fedsuper.data.preprocess import Preprocess
from fedsuper.data.problems import DataProblem
from fedsuper.data.task import Task

pydicom = pytest.importorskip("pydicom", reason="pip install 'fedsuper[dicom]'")


def test_a_series_is_sorted_placed_and_rescaled(tmp_path: Path) -> None:
    image = read_image(write_series(tmp_path / "scan"))
    assert image.kind == "dicom" and image.native_shape == (12, 10, 4)
    in_file = image.frame.to_file(image.array[:, 0])
    np.testing.assert_array_equal(in_file, VOXELS.transpose(2, 1, 0) * 2.0 - 5)
    np.testing.assert_allclose(image.spacing, (3.3, 0.7, 0.5), atol=1e-4)
    np.testing.assert_allclose(image.affine[:3, 3], [20, -15, 40])  # LPS to RAS
    np.testing.assert_allclose(image.affine[:3, 0], [-0.5, 0, 0])


def test_masks_come_back_as_nifti_on_the_same_grid(tmp_path: Path) -> None:
    image = read_image(write_series(tmp_path / "scan"))
    mask = (image.array[:, 0] > 700).astype(np.uint8)
    write_mask(tmp_path / "mask.nii.gz", mask, image)
    np.testing.assert_allclose(nibabel.load(tmp_path / "mask.nii.gz").affine, image.affine, atol=1e-5)
    np.testing.assert_array_equal(read_label(tmp_path / "mask.nii.gz", image), mask)


@pytest.mark.parametrize("values", [[0, 1, 2], [0, 3], [0]])
def test_masks_come_back_as_dicom_seg(tmp_path: Path, values: list[int]) -> None:
    highdicom = pytest.importorskip("highdicom", reason="pip install 'fedsuper[dicom]'")
    image = read_image(write_series(tmp_path / "scan"))
    mask = RANDOM.choice(values, image.stack_shape).astype(np.uint8)
    write_mask(tmp_path / "mask.dcm", mask, image)
    read = highdicom.seg.segread(tmp_path / "mask.dcm")
    assert [read.get_segment_description(n).segment_label for n in read.segment_numbers] == [
        f"label {value}" for value in (values[1:] or [1])
    ]
    uids = [file.SOPInstanceUID for file in image.header]
    frames = read.get_pixels_by_source_instance(
        uids, assert_missing_frames_are_empty=True
    )  # [slice, row, col, segment]
    expected = image.frame.to_file(mask).transpose(2, 1, 0)
    for index, value in enumerate(values[1:]):
        np.testing.assert_array_equal(frames[..., index], expected == value)


def test_a_series_with_a_nifti_label_trains_and_passes_the_doctor(tmp_path: Path) -> None:
    task = Task("prostate", 1, {"prostate": (1,)})
    (tmp_path / "dataset.json").write_text('{"task": "prostate", "channels": 1, "regions": {"prostate": [1]}}')
    for number in range(3):
        shifted = np.roll(VOXELS, number, axis=1)
        folder = write_series(tmp_path / "s" / "images" / f"scan{number}")
        for file, index in zip(sorted(folder.iterdir()), (2, 0, 3, 1), strict=True):
            data = pydicom.dcmread(file)
            data.PixelData = shifted[index].tobytes()
            data.save_as(file)
        image = read_image(folder)
        label = tmp_path / "s" / "labels" / f"scan{number}.nii.gz"
        write_mask(label, (image.array[:, 0] > 700).astype(np.uint8), image)
    assert [f for f in examine(tmp_path).findings if f.level == "error"] == []
    items = list_items(tmp_path / "s", True)
    samples = load_samples(tmp_path / "s", items, task, Preprocess(image_size=16), tmp_path / "cache")
    assert len(samples) == 12 and samples.names[0] == "scan0#0000"


@pytest.mark.parametrize("name", ["eye.dcm", "IM000001"])
def test_a_photograph_is_read_and_its_mask_written_in_every_format(tmp_path: Path, name: str) -> None:
    highdicom = pytest.importorskip("highdicom", reason="pip install 'fedsuper[dicom]'")
    pixels = RANDOM.integers(0, 256, (10, 12, 3), dtype=np.uint8)
    path = write_photograph(tmp_path / "site" / "images" / name, pixels)
    (item,) = list_items(tmp_path / "site", require_labels=False)
    image = read_image(item.image)
    assert image.kind == "dicom" and image.affine is None and image.stack_shape == (1, 10, 12)
    np.testing.assert_array_equal(image.array[0].transpose(1, 2, 0), pixels)
    mask = RANDOM.integers(0, 3, (1, 10, 12)).astype(np.uint8)
    assert mask_suffix(path) == ".png"
    for to in MASK_FORMATS:
        write_mask(tmp_path / f"mask{mask_suffix(path, to)}", mask, image, to, names={1: "rim", 2: "cup"})
    np.testing.assert_array_equal(read_label(tmp_path / "mask.png", image), mask)
    np.testing.assert_array_equal(np.asarray(nibabel.load(tmp_path / "mask.nii.gz").dataobj), mask.transpose(2, 1, 0))
    read = highdicom.seg.segread(tmp_path / "mask.dcm")
    assert [read.get_segment_description(n).segment_label for n in read.segment_numbers] == ["rim", "cup"]
    np.testing.assert_array_equal(read.pixel_array, [mask[0] == 1, mask[0] == 2])


def test_photographs_in_one_folder_are_images_by_themselves_and_slices_are_one(tmp_path: Path) -> None:
    pixels = RANDOM.integers(0, 256, (10, 12, 3), dtype=np.uint8)
    eyes = [write_photograph(tmp_path / "eyes" / f"IM{n}", pixels, SeriesInstanceUID=f"1.2.{n}") for n in range(3)]
    assert images_of_folder(tmp_path / "eyes") == eyes
    scan = write_series(tmp_path / "scans" / "one")
    assert images_of_folder(scan) == [scan] == images_of_folder(tmp_path / "scans")
    assert mask_suffix(scan) == ".nii.gz"


@pytest.mark.parametrize(
    ("name", "to", "words"),
    [("mask.png", None, "4 slices"), ("mask.nii", "png", "name it with .png"), ("mask", None, "name it with")],
)
def test_a_format_that_cannot_hold_the_mask_is_refused(tmp_path: Path, name: str, to: str, words: str) -> None:
    image = read_image(write_series(tmp_path / "scan"))
    with pytest.raises(DataProblem, match=words):
        write_mask(tmp_path / name, np.zeros(image.stack_shape, np.uint8), image, to)
    assert not (tmp_path / name).exists()


def test_a_source_that_no_dicom_seg_can_refer_to_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("highdicom", reason="pip install 'fedsuper[dicom]'")
    folder = write_series(tmp_path / "scan")
    for file in folder.iterdir():
        data = pydicom.dcmread(file)
        del data.StudyInstanceUID
        data.save_as(file)
    image = read_image(folder)
    with pytest.raises(DataProblem, match="cannot be written as DICOM SEG"):
        write_mask(tmp_path / "mask.dcm", np.zeros(image.stack_shape, np.uint8), image)


def test_a_palette_is_turned_to_color(tmp_path: Path) -> None:
    indices = RANDOM.integers(0, 4, (10, 12), dtype=np.uint8)
    red, green, blue = (RANDOM.integers(0, 256, 4, dtype=np.uint8) for _ in range(3))
    tables = {}
    for name, table in (("Red", red), ("Green", green), ("Blue", blue)):
        tables[f"{name}PaletteColorLookupTableDescriptor"] = [4, 0, 8]
        tables[f"{name}PaletteColorLookupTableData"] = table.tobytes()
    values = {"SamplesPerPixel": 1, "PhotometricInterpretation": "PALETTE COLOR", "PixelData": indices.tobytes()}
    path = write_photograph(tmp_path / "eye.dcm", np.zeros((10, 12, 3), np.uint8), **values, **tables)
    expected = np.stack([red[indices], green[indices], blue[indices]])
    np.testing.assert_array_equal(read_image(path).array[0], expected)


def test_an_enhanced_multi_frame_file_is_the_same_volume(tmp_path: Path) -> None:
    from pydicom.dataset import Dataset
    from pydicom.sequence import Sequence

    def group(**values) -> Dataset:
        inner = Dataset()
        for key, value in values.items():
            setattr(inner, key, value)
        return inner

    normal = np.cross(ORIENTATION[:3], ORIENTATION[3:])
    order = (2, 0, 3, 1)
    per_frame = []
    for index in order:
        place = group(ImagePositionPatient=list(np.array([-20.0, 15.0, 40.0]) + index * 3.3 * normal))
        per_frame.append(group(PlanePositionSequence=Sequence([place])))
    shared = group(
        PlaneOrientationSequence=Sequence([group(ImageOrientationPatient=ORIENTATION)]),
        PixelMeasuresSequence=Sequence([group(PixelSpacing=[0.7, 0.5], SliceThickness=3.0)]),
        PixelValueTransformationSequence=Sequence([group(RescaleSlope=2.0, RescaleIntercept=-5.0)]),
    )
    new_file(
        tmp_path / "enhanced.dcm",
        Rows=10,
        Columns=12,
        NumberOfFrames=4,
        PerFrameFunctionalGroupsSequence=Sequence(per_frame),
        SharedFunctionalGroupsSequence=Sequence([shared]),
        PixelData=VOXELS[list(order)].tobytes(),
    )
    enhanced, classic = read_image(tmp_path / "enhanced.dcm"), read_image(write_series(tmp_path / "scan"))
    np.testing.assert_array_equal(enhanced.array, classic.array)
    np.testing.assert_allclose(enhanced.affine, classic.affine)


def test_a_series_without_endings_is_found(tmp_path: Path) -> None:
    folder = write_series(tmp_path / "images" / "scan")
    for file in list(folder.iterdir()):
        file.rename(folder / f"IM{file.stem}")
    (folder / "DICOMDIR").write_text("")
    (folder / "notes").write_text("not DICOM")
    (item,) = list_items(tmp_path, require_labels=False)
    assert item.name == "scan" and read_image(item.image).native_shape == (12, 10, 4)


def test_dark_is_high_in_monochrome1(tmp_path: Path) -> None:
    image = read_image(write_series(tmp_path / "scan", PhotometricInterpretation="MONOCHROME1"))
    in_file = image.frame.to_file(image.array[:, 0])
    np.testing.assert_array_equal(in_file, 2.0 * (VOXELS.max() - VOXELS.transpose(2, 1, 0)))
