"""The one reader and writer of images: any supported file in, slices out, masks back in the file's own grid."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedsuper.data import dicom, nifti, raster
from fedsuper.data.geometry import GRID_TOLERANCE, SliceFrame, choose_slice_axis, grid_offset, slice_frame
from fedsuper.data.layout import suffix_of
from fedsuper.data.problems import DataProblem

Kind = Literal["raster", "nifti", "dicom"]


@dataclass(frozen=True)
class Image:
    """An image as the network's slices, with all it takes to put a mask back.

    `array` is float32 `[Z, C, H, W]` in the file's own intensities; a photograph has Z = 1. `native_shape` is the
    shape of a mask in the file's grid, `frame` leads from there to slices. `spacing` (Z, H, W, millimetres), `affine`
    and `header` are None where the file has none.
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


@dataclass(frozen=True)
class Facts:
    """What a file's header says: `shape` is (Z, H, W) in slices."""

    kind: Kind
    shape: tuple[int, int, int]
    channels: int
    spacing: tuple[float, float, float] | None


def read_image(path: Path) -> Image:
    """Read a picture, NIfTI volume or DICOM series; raises one line where it is unreadable or holds NaN or infinity."""
    path = Path(path)
    kind = kind_of(path)
    if kind == "dicom":
        image = _read_dicom(path)
    elif kind == "nifti":
        image = _read_nifti(path)
    else:
        image = _picture(path, raster.read_pixels(path))
    bad = int(image.array.size - np.isfinite(image.array).sum())
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
        fix = "give both as pictures or both as NIfTI, so that they share a grid"
        raise DataProblem(path, f"is a {kind} file but its image {like.path.name} is {like.kind}", fix)
    if kind == "raster":
        values = raster.read_indices(path)[None]
        _check_slices(path, values.shape, like)
    else:
        values = _read_nifti_label(path, like)
    return _whole_numbers(path, values)


def write_mask(path: Path, mask_zhw: np.ndarray, like: Image) -> None:
    """Write a mask `[Z, H, W]` in the grid, affine and header of the image it belongs to, whole or not at all.

    The ending of `path` chooses the format: `.png` for pictures, `.nii` or `.nii.gz` for NIfTI and DICOM,
    `.dcm` for a DICOM SEG of a DICOM series.
    """
    path, mask = Path(path), np.asarray(mask_zhw)
    expected = like.stack_shape
    if mask.shape != expected:
        raise ValueError(f"mask of shape {mask.shape} for an image of {expected} slices, rows and columns")
    if mask.size and (mask.min() < 0 or mask.max() > 255):
        raise ValueError("mask values must lie in 0..255")
    suffix = suffix_of(path)
    allowed = {"raster": (".png",), "nifti": (".nii", ".nii.gz"), "dicom": (".nii", ".nii.gz", ".dcm")}[like.kind]
    if suffix not in allowed:
        fix = f"name it with {' or '.join(allowed)}"
        raise DataProblem(path, f"cannot hold the mask of the {like.kind} image {like.path.name}", fix)
    if like.kind == "raster":
        raster.write_png(path, mask[0])
        return
    volume = np.ascontiguousarray(like.frame.to_file(mask)).reshape(like.native_shape)
    if suffix == ".dcm":
        dicom.write_segmentation(path, volume, like.header)
    else:
        nifti.write_nifti(path, volume, like.affine, like.header if like.kind == "nifti" else None)


def mask_suffix(image: Image) -> str:
    """The ending a mask of `image` gets by default."""
    if image.kind == "raster":
        return ".png"
    return ".nii" if image.path.name.lower().endswith(".nii") else ".nii.gz"


def probe(path: Path) -> Facts:
    """Shape, channels and spacing from the header, without decoding pixels (a DICOM series reads its headers)."""
    path = Path(path)
    kind = kind_of(path)
    if kind == "raster":
        height, width, channels = raster.probe_raster(path)
        return Facts(kind, (1, height, width), channels, None)
    if kind == "dicom":
        series = dicom.open_series(path)
        if series.affine is None:
            return Facts("raster", (1, series.shape[1], series.shape[0]), series.channels, None)
        frame = slice_frame(series.affine, series.shape)
        return Facts(kind, _slice_shape(frame, series.shape), series.channels, frame.spacing(series.affine))
    header = nifti.open_header(path)
    shape, affine, frame = nifti.grid_of(path, header)
    return Facts(kind, _slice_shape(frame, shape), nifti.channels_of(header), frame.spacing(affine))


def kind_of(path: Path) -> Kind:
    """Which reader a path is for, by its ending; a folder is a DICOM series."""
    if path.is_dir():
        return "dicom"
    suffix = suffix_of(path)
    if suffix is None:
        raise DataProblem(path, "has an ending that is not known", "use png, jpg, tif, bmp, nii, nii.gz or dcm")
    return "nifti" if suffix.startswith(".nii") else "dicom" if suffix == ".dcm" else "raster"


def _slice_shape(frame: SliceFrame, shape: tuple[int, ...]) -> tuple[int, int, int]:
    return shape[frame.axes[0]], shape[frame.axes[1]], shape[frame.axes[2]]


def _picture(path: Path, pixels: np.ndarray) -> Image:
    array = np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], dtype=np.float32)
    return Image(array, path, "raster", pixels.shape[:2], SliceFrame())


def _stack(frame: SliceFrame, voxels: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):  # what float32 cannot hold becomes infinite and is reported
        return np.ascontiguousarray(frame.to_slices(voxels).transpose(0, 3, 1, 2), dtype=np.float32)


def _read_nifti(path: Path) -> Image:
    source = nifti.load_nifti(path)
    shape, affine, frame = nifti.grid_of(path, source)
    array = _stack(frame, nifti.voxels_of(path, source))
    native = shape if len(source.shape) > 2 else source.shape
    return Image(array, path, "nifti", native, frame, frame.spacing(affine), affine, source.header)


def _read_dicom(path: Path) -> Image:
    series = dicom.open_series(path, pixels=True)
    voxels = dicom.load_voxels(series)
    if series.affine is None:
        return _picture(path, voxels[:, :, 0].transpose(1, 0, 2))
    frame = slice_frame(series.affine, series.shape)
    spacing = frame.spacing(series.affine)
    return Image(_stack(frame, voxels), path, "dicom", series.shape, frame, spacing, series.affine, series.datasets)


def _read_nifti_label(path: Path, like: Image | None) -> np.ndarray:
    source = nifti.load_nifti(path)
    shape, affine, frame = nifti.grid_of(path, source)
    voxels = nifti.voxels_of(path, source)
    if voxels.shape[3] != 1:
        raise DataProblem(path, f"has {voxels.shape[3]} channels, a label has one", "save one label value per voxel")
    if like is None or like.affine is None:
        return frame.to_slices(voxels[..., 0])
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
