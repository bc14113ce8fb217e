"""DICOM series in, through the extra `dicom` (pydicom).

A series is a folder of single-frame files or one (enhanced) multi-frame file. It becomes a volume in NIfTI's
convention: axes (column, row, slice), an affine to RAS+ millimeters. A file without a place in the patient, such as an
ophthalmic photograph, is a picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedsuper.data.images.decoding import check_bytes, check_size, decoding, needed
from fedsuper.data.layout import is_dicom_file
from fedsuper.data.problems import DataProblem, some_of

MAX_FRAMES = 2**14
GAP_TOLERANCE = 0.05  # share of the slice distance by which a gap may differ from it
RAS_FROM_LPS = np.diag([-1.0, -1.0, 1.0])


@dataclass(frozen=True)
class Place:
    """Where a frame lies in the patient (LPS millimeters): first pixel, row and column direction, their product."""

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
        """1 for gray, 3 for color."""
        return _samples(self.planes[0].dataset)

    @property
    def datasets(self) -> list[Any]:
        """The files' datasets in slice order, each once."""
        return list({id(plane.dataset): plane.dataset for plane in self.planes}.values())


def open_series(path: Path, pixels: bool = False) -> Series:
    """The headers of a series (or file), sorted and checked; with `pixels` the compressed pixels are read as well."""
    pydicom = needed_for_dicom("pydicom", path)
    with decoding(path):
        files = [path] if path.is_file() else [file for file in sorted(path.iterdir()) if is_dicom_file(file)]
        check_bytes(path, sum(file.stat().st_size for file in files))
        series = _sorted_series(path, [pydicom.dcmread(file, stop_before_pixels=True) for file in files])
        check_size(path, (*series.shape, series.channels), 4)
        return _sorted_series(path, [pydicom.dcmread(file) for file in files]) if pixels else series


def is_slice(file: Path) -> bool:
    """Whether a file is one slice of a series in its folder, rather than an image by itself (photograph, multi-frame).

    A file that cannot be read counts as a slice: its series will say what is wrong.
    """
    pydicom = needed_for_dicom("pydicom", file)
    try:
        with decoding(file):
            header = pydicom.dcmread(file, stop_before_pixels=True)
            return "ImagePositionPatient" in header and int(header.get("NumberOfFrames") or 1) == 1
    except DataProblem:
        return True


def load_voxels(series: Series) -> np.ndarray:
    """The voxels `[X, Y, Z, C]` of a series opened with its pixels: rescaled to float32, or as they are stored."""
    with decoding(series.path):
        frames = {id(dataset): _frames(series.path, dataset) for dataset in series.datasets}
        stack = [_rescaled(plane, frames[id(plane.dataset)][plane.frame]) for plane in series.planes]
        frames.clear()
        volume = np.stack(stack)  # [Z, rows, columns, C]
        if series.planes[0].dataset.PhotometricInterpretation == "MONOCHROME1":  # high values are dark
            volume = volume.max() - volume
        return volume.transpose(2, 1, 0, 3)


def _rescaled(plane: Plane, pixels: np.ndarray) -> np.ndarray:
    if (plane.slope, plane.intercept) == (1.0, 0.0):
        return pixels
    return (pixels.astype(np.float32) * plane.slope + plane.intercept).astype(np.float32)


def _sorted_series(path: Path, datasets: list[Any]) -> Series:
    count = sum(int(dataset.get("NumberOfFrames") or 1) for dataset in datasets)
    if count > MAX_FRAMES:
        raise DataProblem(path, f"claims {count} frames, the limit is {MAX_FRAMES}", "keep one series per folder")
    planes = [plane for dataset in datasets for plane in _planes(path, dataset)]
    _check_uniform(path, planes)
    return Series(path, *_sorted_with_affine(path, planes))


def needed_for_dicom(module: str, path: Path) -> Any:
    """A library of the extra `dicom`, or one line that says how to install it."""
    return needed(module, path, "pip install 'fedsuper[dicom]'")


def _planes(path: Path, dataset: Any) -> list[Plane]:
    if "Rows" not in dataset or "Columns" not in dataset:
        fix = "keep only the image series in this folder"
        raise DataProblem(path, f"holds a DICOM object without pixels ({dataset.get('Modality', '?')})", fix)
    count = int(dataset.get("NumberOfFrames") or 1)
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
    """All frames of a file as `[N, rows, columns, C]`: decompressed, in RGB where they are colored."""
    pixels = needed_for_dicom("pydicom.pixels", path)
    decoded = np.asarray(pixels.pixel_array(dataset))  # the function, unlike the attribute, keeps no second copy
    if dataset.PhotometricInterpretation == "PALETTE COLOR":
        decoded = np.asarray(pixels.apply_color_lut(decoded, dataset))[..., :3]
    return decoded.reshape(-1, int(dataset.Rows), int(dataset.Columns), _samples(dataset))


def _samples(dataset: Any) -> int:
    """Values per pixel once decoded: an entry of a palette is a color."""
    palette = dataset.get("PhotometricInterpretation") == "PALETTE COLOR"
    return 3 if palette else int(dataset.get("SamplesPerPixel", 1))
