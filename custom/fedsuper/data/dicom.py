"""DICOM series in and DICOM SEG out, through the extra `dicom` (pydicom; highdicom for SEG).

A series is a folder of single-frame files or one (enhanced) multi-frame file. It becomes a volume in NIfTI's
convention: axes (column, row, slice), an affine to RAS+ millimetres. A file without a place in the patient, such as an
ophthalmic photograph, is a picture.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedsuper.data.decoding import check_size, decoding
from fedsuper.data.layout import is_dicom_file
from fedsuper.data.problems import DataProblem, some_of
from fedsuper.files import atomic_write

GAP_TOLERANCE = 0.05  # share of the slice distance by which a gap may differ from it
RAS_FROM_LPS = np.diag([-1.0, -1.0, 1.0])


@dataclass(frozen=True)
class Place:
    """Where a frame lies in the patient (LPS millimetres): first pixel, row and column direction, their product."""

    position: np.ndarray
    across: np.ndarray
    down: np.ndarray
    normal: np.ndarray
    height: float  # of the position along the normal


@dataclass(frozen=True)
class Plane:
    """One frame of a series, with its place in the patient where it has one."""

    dataset: Any
    frame: int
    place: Place | None
    spacing: tuple[float, float]
    thickness: float
    slope: float
    intercept: float


@dataclass(frozen=True)
class Series:
    """The planes of a series from first to last along the slice axis, and the affine (None for a picture)."""

    path: Path
    planes: list[Plane]
    affine: np.ndarray | None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Columns, rows, slices."""
        first = self.planes[0].dataset
        return int(first.Columns), int(first.Rows), len(self.planes)

    @property
    def channels(self) -> int:
        """1 for grey, 3 for colour."""
        return int(self.planes[0].dataset.get("SamplesPerPixel", 1))

    @property
    def datasets(self) -> list[Any]:
        """The files' datasets in slice order, each once."""
        return list({id(plane.dataset): plane.dataset for plane in self.planes}.values())


def open_series(path: Path, pixels: bool = False) -> Series:
    """The headers of a series (or file), sorted and checked; with `pixels` the compressed pixels are read as well."""
    pydicom = _needed("pydicom", path)
    with decoding(path):
        files = [path] if path.is_file() else [file for file in sorted(path.iterdir()) if is_dicom_file(file)]
        datasets = [pydicom.dcmread(file, stop_before_pixels=not pixels) for file in files]
        planes = [plane for dataset in datasets for plane in _planes(path, dataset)]
        _check_uniform(path, planes)
        series = Series(path, *_sorted_with_affine(path, planes))
        check_size(path, (*series.shape, series.channels))
        return series


def load_voxels(series: Series) -> np.ndarray:
    """The rescaled voxels `[X, Y, Z, C]` of a series opened with its pixels."""
    with decoding(series.path):
        frames = {id(dataset): _frames(series.path, dataset) for dataset in series.datasets}
        stack = [
            frames[id(plane.dataset)][plane.frame].astype(np.float32) * plane.slope + plane.intercept
            for plane in series.planes
        ]
        volume = np.stack(stack).astype(np.float32)  # [Z, rows, columns, C]
        if series.planes[0].dataset.PhotometricInterpretation == "MONOCHROME1":  # high values are dark
            volume = volume.max() - volume
        return volume.transpose(2, 1, 0, 3)


def write_segmentation(path: Path, volume: np.ndarray, datasets: list[Any]) -> None:
    """Write a mask `[X, Y, Z]` as a DICOM SEG that refers to the series' files, one segment per label value."""
    highdicom = _needed("highdicom", path)
    pydicom = _needed("pydicom", path)
    values = [int(value) for value in np.unique(volume) if value] or [1]
    tissue = pydicom.sr.codedict.codes.SCT.Tissue
    segments = [
        highdicom.seg.SegmentDescription(
            segment_number=number,
            segment_label=f"label {value}",
            segmented_property_category=tissue,
            segmented_property_type=tissue,
            algorithm_type=highdicom.seg.SegmentAlgorithmTypeValues.AUTOMATIC,
            algorithm_identification=highdicom.AlgorithmIdentificationSequence(
                name="FedSuper", version="1", family=pydicom.sr.codedict.codes.DCM.ArtificialIntelligence
            ),
        )
        for number, value in enumerate(values, start=1)
    ]
    numbers = np.searchsorted(values, volume) + 1
    with decoding(path):
        segmentation = highdicom.seg.Segmentation(
            source_images=datasets,
            pixel_array=np.where(volume > 0, numbers, 0).astype(np.uint8).transpose(2, 1, 0),
            segmentation_type=highdicom.seg.SegmentationTypeValues.BINARY,
            segment_descriptions=segments,
            series_instance_uid=highdicom.UID(),
            series_number=1000,
            sop_instance_uid=highdicom.UID(),
            instance_number=1,
            manufacturer="FedSuper",
            manufacturer_model_name="FedSuper",
            software_versions="1",
            device_serial_number="none",
            omit_empty_frames=bool(volume.any()),
        )
    atomic_write(path, segmentation.save_as)


def _needed(module: str, path: Path) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise DataProblem(path, f"is DICOM and {module} is not installed", "pip install 'fedsuper[dicom]'") from None


def _planes(path: Path, dataset: Any) -> list[Plane]:
    if "Rows" not in dataset or "Columns" not in dataset:
        fix = "keep only the image series in this folder"
        raise DataProblem(path, f"holds a DICOM object without pixels ({dataset.get('Modality', '?')})", fix)
    count = int(dataset.get("NumberOfFrames", 1))
    per_frame = dataset.get("PerFrameFunctionalGroupsSequence", [None] * count)
    shared = dataset.get("SharedFunctionalGroupsSequence", [None])[0]
    return [_plane(dataset, index, [dataset, per_frame[index], shared]) for index in range(count)]


def _plane(dataset: Any, index: int, places: list[Any]) -> Plane:
    def find(group: str, key: str) -> Any:
        for place in places:
            if place is None:
                continue
            if key in place:
                return place[key].value
            if group in place and key in place[group][0]:
                return place[group][0][key].value
        return None

    position = find("PlanePositionSequence", "ImagePositionPatient")
    orientation = find("PlaneOrientationSequence", "ImageOrientationPatient")
    spacing = find("PixelMeasuresSequence", "PixelSpacing") or (1.0, 1.0)
    between = find("PixelMeasuresSequence", "SpacingBetweenSlices")
    thickness = between or find("PixelMeasuresSequence", "SliceThickness") or 1.0
    slope = find("PixelValueTransformationSequence", "RescaleSlope")
    return Plane(
        dataset,
        index,
        None if position is None or orientation is None else _place(position, orientation),
        (float(spacing[0]), float(spacing[1])),
        float(thickness),
        1.0 if slope is None else float(slope),
        float(find("PixelValueTransformationSequence", "RescaleIntercept") or 0.0),
    )


def _place(position: Any, orientation: Any) -> Place:
    where, across, down = (np.array(part, dtype=float) for part in (position, orientation[:3], orientation[3:]))
    normal = np.cross(across, down)
    return Place(where, across, down, normal, float(where @ normal))


def _check_uniform(path: Path, planes: list[Plane]) -> None:
    if not planes:
        raise DataProblem(path, "holds no DICOM file", "put the .dcm files of one series there")
    series = sorted({str(plane.dataset.get("SeriesInstanceUID", "")) for plane in planes})
    if len(series) > 1:
        raise DataProblem(path, f"mixes {len(series)} series ({some_of(series, 2)})", "keep one series per folder")
    for key in ("Rows", "Columns", "SamplesPerPixel"):
        if len({plane.dataset.get(key) for plane in planes}) > 1:
            raise DataProblem(path, f"has slices of different {key}", "keep one series per folder (no localiser)")


def _sorted_with_affine(path: Path, planes: list[Plane]) -> tuple[list[Plane], np.ndarray | None]:
    placed = sorted(
        ((plane.place, plane) for plane in planes if plane.place is not None), key=lambda pair: pair[0].height
    )
    if not placed and len(planes) == 1:
        return planes, None
    if len(placed) < len(planes):
        fix = "export the series with ImagePositionPatient and ImageOrientationPatient, or one picture per file"
        raise DataProblem(path, f"has {len(planes) - len(placed)} frames without a place in the patient", fix)
    first, last = placed[0][0], placed[-1][0]
    parallel = all(
        np.allclose(place.across, first.across, atol=1e-3) and np.allclose(place.down, first.down, atol=1e-3)
        for place, _ in placed
    )
    if not parallel or not np.isclose(np.linalg.norm(first.normal), 1, atol=1e-2):
        raise DataProblem(path, "has slices of different orientation", "keep one series per folder (no localiser)")
    planes = [plane for _, plane in placed]
    step = first.normal * planes[0].thickness
    if len(planes) > 1:
        _check_gaps(path, np.diff([place.height for place, _ in placed]))
        step = (last.position - first.position) / (len(planes) - 1)
    affine = np.eye(4)
    axes = np.stack([first.across * planes[0].spacing[1], first.down * planes[0].spacing[0], step], axis=1)
    affine[:3, :3] = RAS_FROM_LPS @ axes
    affine[:3, 3] = RAS_FROM_LPS @ first.position
    return planes, affine


def _check_gaps(path: Path, gaps: np.ndarray) -> None:
    if gaps.min() <= 1e-3:
        fix = "keep one time point, echo or b-value per folder"
        raise DataProblem(path, "has two slices at the same place", fix)
    if gaps.max() - gaps.min() > GAP_TOLERANCE * float(np.median(gaps)):
        what = f"has slices {gaps.min():.2f} to {gaps.max():.2f} mm apart"
        raise DataProblem(path, what, "restore the missing slices, or resample the volume to NIfTI")


def _frames(path: Path, dataset: Any) -> np.ndarray:
    """All frames of a file as `[N, rows, columns, C]`."""
    pixels = np.asarray(dataset.pixel_array)
    if dataset.PhotometricInterpretation == "PALETTE COLOR":
        raise DataProblem(path, "has palette colours", "export it as grey or RGB")
    rows, columns, samples = int(dataset.Rows), int(dataset.Columns), int(dataset.get("SamplesPerPixel", 1))
    return pixels.reshape(-1, rows, columns, samples)
