"""DICOM series: sorted, placed, rescaled; masks out as NIfTI and as DICOM SEG. Needs the extra `dicom`."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest

from fedsuper.data import dicom
from fedsuper.data.dataset import load_samples
from fedsuper.data.doctor import diagnose
from fedsuper.data.image_io import probe, read_image, read_label, write_mask
from fedsuper.data.layout import list_items
from fedsuper.data.preprocess import Preprocess
from fedsuper.data.problems import DataProblem
from fedsuper.data.task import Task

pydicom = pytest.importorskip("pydicom", reason="pip install 'fedsuper[dicom]'")
RANDOM = np.random.default_rng(5)
VOXELS = RANDOM.integers(0, 900, (4, 10, 12), dtype=np.int16)  # slices, rows, columns
ORIENTATION = [1.0, 0, 0, 0, 0.96, 0.28]  # rows tilted about the left-right axis


def new_file(path: Path, **values) -> object:
    """A minimal MR image file."""
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, MRImageStorage, generate_uid

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = MRImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file = FileDataset(path, {}, file_meta=meta, preamble=b"\0" * 128)
    defaults = {
        "SOPClassUID": MRImageStorage,
        "SOPInstanceUID": meta.MediaStorageSOPInstanceUID,
        "StudyInstanceUID": "1.2.3",
        "SeriesInstanceUID": "1.2.3.4",
        "FrameOfReferenceUID": "1.2.3.5",
        "Modality": "MR",
        "PatientName": "Test^Case",
        "PatientID": "1",
        "PatientBirthDate": "",
        "PatientSex": "",
        "StudyID": "1",
        "StudyDate": "20200101",
        "StudyTime": "000000",
        "AccessionNumber": "",
        "ReferringPhysicianName": "",
        "Manufacturer": "none",
        "SeriesNumber": 1,
        "SamplesPerPixel": 1,
        "PhotometricInterpretation": "MONOCHROME2",
        "BitsAllocated": 16,
        "BitsStored": 16,
        "HighBit": 15,
        "PixelRepresentation": 1,
    }
    for key, value in (defaults | values).items():
        setattr(file, key, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    file.save_as(path, enforce_file_format=True)
    return file


def write_series(folder: Path, **values) -> Path:
    """Four slices, written in an order that is not theirs."""
    normal = np.cross(ORIENTATION[:3], ORIENTATION[3:])
    for number, index in enumerate((2, 0, 3, 1)):
        settings = {
            "Rows": 10,
            "Columns": 12,
            "PixelSpacing": [0.7, 0.5],
            "SliceThickness": 3.0,
            "ImageOrientationPatient": ORIENTATION,
            "ImagePositionPatient": list(np.array([-20.0, 15.0, 40.0]) + index * 3.3 * normal),
            "InstanceNumber": index + 1,
            "RescaleSlope": 2.0,
            "RescaleIntercept": -5.0,
            "PixelData": VOXELS[index].tobytes(),
        }
        new_file(folder / f"{number}.dcm", **(settings | values))
    return folder


def test_a_series_is_sorted_placed_and_rescaled(tmp_path: Path) -> None:
    image = read_image(write_series(tmp_path / "scan"))
    assert image.kind == "dicom" and image.native_shape == (12, 10, 4)
    in_file = image.frame.to_file(image.array[:, 0])
    np.testing.assert_array_equal(in_file, VOXELS.transpose(2, 1, 0) * 2.0 - 5)
    np.testing.assert_allclose(image.spacing, (3.3, 0.7, 0.5), atol=1e-4)
    np.testing.assert_allclose(image.affine[:3, 3], [20, -15, 40])  # LPS to RAS
    np.testing.assert_allclose(image.affine[:3, 0], [-0.5, 0, 0])
    facts = probe(tmp_path / "scan")
    assert facts.shape == image.stack_shape and facts.spacing == image.spacing


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
    assert [f for f in diagnose(tmp_path) if f.level == "error"] == []
    samples = load_samples(tmp_path / "s", list_items(tmp_path / "s", True), task, Preprocess(16), tmp_path / "cache")
    assert len(samples) == 12 and samples.names[0] == "scan0#0000"


def test_a_photograph_without_a_place_is_a_picture(tmp_path: Path) -> None:
    pixels = RANDOM.integers(0, 256, (10, 12, 3), dtype=np.uint8)
    colour = {
        "Rows": 10,
        "Columns": 12,
        "SamplesPerPixel": 3,
        "PlanarConfiguration": 0,
        "PhotometricInterpretation": "RGB",
        "BitsAllocated": 8,
        "BitsStored": 8,
        "HighBit": 7,
        "PixelRepresentation": 0,
    }
    new_file(tmp_path / "eye.dcm", Modality="OP", PixelData=pixels.tobytes(), **colour)
    image = read_image(tmp_path / "eye.dcm")
    assert image.kind == "raster" and probe(tmp_path / "eye.dcm").shape == (1, 10, 12)
    np.testing.assert_array_equal(image.array[0].transpose(1, 2, 0), pixels)
    write_mask(tmp_path / "mask.png", np.ones((1, 10, 12), np.uint8), image)
    assert read_label(tmp_path / "mask.png", image).min() == 1


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


def _cut(folder: Path) -> None:
    (folder / "1.dcm").write_bytes((folder / "1.dcm").read_bytes()[:-50])


def _other_series(folder: Path) -> None:
    data = pydicom.dcmread(folder / "1.dcm")
    data.SeriesInstanceUID = "1.2.3.99"
    data.save_as(folder / "1.dcm")


def _twice(folder: Path) -> None:
    (folder / "copy.dcm").write_bytes((folder / "1.dcm").read_bytes())


def _turned(folder: Path) -> None:
    data = pydicom.dcmread(folder / "1.dcm")
    data.ImageOrientationPatient = [0, 1, 0, 0, 0, 1]
    data.save_as(folder / "1.dcm")


def _without_place(folder: Path) -> None:
    data = pydicom.dcmread(folder / "1.dcm")
    del data.ImagePositionPatient
    data.save_as(folder / "1.dcm")


def _report(folder: Path) -> None:
    data = pydicom.dcmread(folder / "1.dcm")
    del data.Rows
    data.save_as(folder / "1.dcm")


def _text(folder: Path) -> None:
    (folder / "1.dcm").write_text("not DICOM")


def _emptied(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def _missing_slice(folder: Path) -> None:
    normal = np.cross(ORIENTATION[:3], ORIENTATION[3:])
    data = pydicom.dcmread(folder / "2.dcm")
    data.ImagePositionPatient = list(np.array([-20.0, 15.0, 40.0]) + 5 * 3.3 * normal)
    data.save_as(folder / "2.dcm")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_cut, "cannot be read"),
        (_other_series, "mixes 2 series"),
        (_twice, "two slices at the same place"),
        (_turned, "different orientation"),
        (_without_place, "without a place"),
        (_report, "without pixels"),
        (_text, "cannot be read"),
        (_emptied, "holds no DICOM file"),
        (_missing_slice, "mm apart"),
    ],
)
def test_broken_series_are_named(tmp_path: Path, spoil, words: str) -> None:
    folder = write_series(tmp_path / "scan")
    spoil(folder)
    with pytest.raises(DataProblem, match=words) as problem:
        read_image(folder)
    assert "\n" not in str(problem.value)


def test_without_pydicom_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_series(tmp_path / "scan")

    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(dicom.importlib, "import_module", absent)
    with pytest.raises(DataProblem, match=r"pydicom is not installed; pip install 'fedsuper\[dicom\]'"):
        read_image(folder)
