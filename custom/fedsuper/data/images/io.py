"""The one reader of images: any supported file in, slices out, with all it takes to put a mask back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedsuper.data.images import dicom, itk, nifti, raster
from fedsuper.data.images.geometry import (
    GRID_TOLERANCE,
    SliceFrame,
    choose_slice_axis,
    frame_of,
    grid_offset,
    slice_frame,
)
from fedsuper.data.layout import IMAGE_SUFFIXES, is_dicom_file, is_series, suffix_of
from fedsuper.data.problems import DataProblem

Kind = Literal["raster", "nifti", "itk", "dicom"]
KINDS: dict[str, Kind] = {".nii": "nifti", ".nii.gz": "nifti", ".dcm": "dicom", **dict.fromkeys(itk.READERS, "itk")}
KEPT = (np.uint8, np.uint16)  # types of a photograph's pixels that stay: as float32 they would take up to four times


@dataclass(frozen=True)
class Image:
    """An image as the network's slices, with all it takes to put a mask back.

    `array` is `[Z, C, H, W]` in the file's own intensities: float32, or the whole numbers that a photograph stores,
    which has Z = 1. `native_shape` is the shape of a mask in the file's grid, `frame` leads from there to slices.
    `spacing` (Z, H, W, millimeters), `affine` and `header` are None where the file has none; a picture, of whatever
    kind, has no affine.
    """

    array: np.ndarray
    path: Path
    kind: Kind
    native_shape: tuple[int, ...]
    frame: SliceFrame
    spacing: tuple[float, float, float] | None = None
    affine: np.ndarray | None = None
    header: Any = None

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of a slice."""
        return self.array.shape[2], self.array.shape[3]

    @property
    def stack_shape(self) -> tuple[int, int, int]:
        """Slices, height and width: the shape of a mask."""
        return self.array.shape[0], *self.size


def read_image(path: Path) -> Image:
    """Read a picture, a volume or a DICOM series; raises one line where it is unreadable or holds NaN or infinity."""
    path = Path(path)
    kind = kind_of(path)
    if kind == "dicom":
        image = _read_dicom(path)
    elif kind == "raster":
        image = _picture(path, raster.read_pixels(path))
    else:
        image = _read_volume(path, kind)
    floats = image.array if image.array.dtype.kind == "f" else image.array[:0]
    bad = sum(plane.size - int(np.isfinite(plane).sum()) for stack in floats for plane in stack)
    if bad:
        what = f"holds {bad} values that are NaN or infinite"
        raise DataProblem(path, what, "replace them at the source (often a background that should be 0)")
    return image


def read_label(path: Path, like: Image | None = None) -> np.ndarray:
    """The label values as int32 `[Z, H, W]`, in the slices of `like`, whose grid the label must share.

    A NIfTI label may store its axes in another order or direction than its image, as long as every voxel sits at the
    same place in the patient; anything else is a mismatch.
    """
    path = Path(path)
    kind = kind_of(path)
    if kind == "dicom":
        raise DataProblem(path, "is a DICOM label, which is not read", "convert it to NIfTI")
    if like is not None and (kind == "raster") != (like.affine is None):
        kinds = ("a picture", "a volume") if kind == "raster" else ("a volume", "a picture")
        fix = "give both as pictures or both as volumes (NIfTI), so that they share a grid"
        raise DataProblem(path, f"is {kinds[0]} but its image {like.path.name} is {kinds[1]}", fix)
    if kind == "raster":
        values = raster.read_indices(path)[None]
        _check_slices(path, values.shape, like)
    else:
        values = _read_volume_label(path, kind, like)
    return _whole_numbers(path, values)


def kind_of(path: Path) -> Kind:
    """Which reader a path is for, by its ending; a folder is a DICOM series, and so is a file that bears its mark."""
    if path.is_dir():
        return "dicom"
    suffix = suffix_of(path)
    if suffix is not None:
        return KINDS.get(suffix, "raster")
    if is_dicom_file(path):
        return "dicom"
    known = ", ".join(sorted(suffix.lstrip(".") for suffix in IMAGE_SUFFIXES))
    raise DataProblem(path, "has an ending that is not known", f"use one of {known}")


def is_picture(path: Path) -> bool:
    """Whether a file is a photograph rather than a volume, without reading its pixels (of DICOM, the headers)."""
    kind = kind_of(path)
    if kind != "dicom":
        return kind == "raster"
    try:
        return dicom.open_series(path).affine is None
    except DataProblem:  # told when it is read
        return False


def images_of_folder(folder: Path) -> list[Path]:
    """The images among the entries of a folder: the folder itself where it is one DICOM series, else files and series.

    Photographs and multi-frame files are images by themselves, however many of them lie together.
    """
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    slices = [entry for entry in entries if is_dicom_file(entry)]
    if slices and dicom.is_slice(slices[0]):
        return [folder]
    return [e for e in entries if (is_series(e) if e.is_dir() else suffix_of(e) is not None or is_dicom_file(e))]


def _slice_shape(frame: SliceFrame, shape: tuple[int, ...]) -> tuple[int, int, int]:
    return shape[frame.axes[0]], shape[frame.axes[1]], shape[frame.axes[2]]


def _picture(path: Path, pixels: np.ndarray, kind: Kind = "raster", header: Any = None) -> Image:
    wanted = pixels.dtype if pixels.dtype in KEPT else np.float32
    array = np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], dtype=wanted)
    return Image(array, path, kind, pixels.shape[:2], SliceFrame(), header=header)


def _stack(frame: SliceFrame, voxels: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):  # what float32 cannot hold becomes infinite and is reported
        return np.ascontiguousarray(frame.to_slices(voxels).transpose(0, 3, 1, 2), dtype=np.float32)


@dataclass(frozen=True)
class _Volume:
    """A volume file: voxels `[X, Y, Z, C]`, where they lie, and the shape and header a mask of it gets."""

    voxels: np.ndarray
    affine: np.ndarray
    frame: SliceFrame
    native_shape: tuple[int, ...]
    header: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.voxels.shape[:3]


def _open_volume(path: Path, kind: Kind) -> _Volume:
    if kind == "itk":
        read = itk.read_itk(path)
        shape = read.voxels.shape[:3]
        return _Volume(read.voxels, read.affine, frame_of(path, read.affine, shape), shape)
    source = nifti.load_nifti(path)
    shape, affine, frame = nifti.grid_of(path, source)
    native = shape if len(source.shape) > 2 else source.shape
    return _Volume(nifti.voxels_of(path, source), affine, frame, native, source.header)


def _read_volume(path: Path, kind: Kind) -> Image:
    volume = _open_volume(path, kind)
    array, spacing = _stack(volume.frame, volume.voxels), volume.frame.spacing(volume.affine)
    return Image(array, path, kind, volume.native_shape, volume.frame, spacing, volume.affine, volume.header)


def _read_dicom(path: Path) -> Image:
    series = dicom.open_series(path, pixels=True)
    voxels = dicom.load_voxels(series)
    if series.affine is None:
        return _picture(path, voxels[:, :, 0].transpose(1, 0, 2), "dicom", series.datasets)
    frame = frame_of(path, series.affine, series.shape)
    spacing = frame.spacing(series.affine)
    return Image(_stack(frame, voxels), path, "dicom", series.shape, frame, spacing, series.affine, series.datasets)


def _read_volume_label(path: Path, kind: Kind, like: Image | None) -> np.ndarray:
    volume = _open_volume(path, kind)
    voxels, affine, shape = volume.voxels, volume.affine, volume.shape
    if voxels.shape[3] != 1:
        raise DataProblem(path, f"has {voxels.shape[3]} channels, a label has one", "save one label value per voxel")
    if like is None or like.affine is None:
        return volume.frame.to_slices(voxels[..., 0])
    image_shape = (*like.native_shape, 1)[:3]
    if shape == image_shape and grid_offset(like.affine, affine, shape) <= GRID_TOLERANCE:
        return like.frame.to_slices(voxels[..., 0])
    frame = slice_frame(affine, shape, choose_slice_axis(like.affine, image_shape))
    _check_slices(path, _slice_shape(frame, shape), like)
    offset = grid_offset(like.frame.affine(like.affine, image_shape), frame.affine(affine, shape), like.stack_shape)
    if offset > GRID_TOLERANCE:
        what = f"lies up to {offset:.1f} voxels away from its image {like.path.name} (their affines differ)"
        raise DataProblem(path, what, "export the label with the image's own header, or resample it to the image")
    return frame.to_slices(voxels[..., 0])


def _check_slices(path: Path, shape: tuple[int, ...], like: Image | None) -> None:
    if like is None or shape == like.stack_shape:
        return
    expected = like.stack_shape
    fix = "export the label at the image's size"
    if (shape[0], shape[2], shape[1]) == expected:
        fix = "rows and columns are exchanged: turn the label as the image is turned (by its EXIF tag or header)"
    raise DataProblem(path, f"has slices, rows, columns {shape}, its image {like.path.name} has {expected}", fix)


def _whole_numbers(path: Path, values: np.ndarray) -> np.ndarray:
    if np.issubdtype(values.dtype, np.floating):
        if not np.isfinite(values).all():
            raise DataProblem(path, "is a label with NaN or infinite values", "export it with whole numbers")
        whole = np.rint(values)
        if np.abs(values - whole).max() > 1e-3:
            raise DataProblem(path, "is a label with fractions (a soft map?)", "threshold it to whole numbers")
        values = whole
    if abs(int(values.min())) > 2**31 - 1 or int(values.max()) > 2**31 - 1:
        raise DataProblem(path, "is a label with values beyond 32 bits", "export it with the task's label values")
    return np.ascontiguousarray(values, dtype=np.int32)
