"""Masks out: the one place that decides a mask's format, its ending, and what a format can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.images import dicom_seg, nifti, raster
from fedsuper.data.images.io import Image, is_picture, kind_of
from fedsuper.data.layout import suffix_of
from fedsuper.data.problems import DataProblem
from fedsuper.errors import FedSuperError

MaskFormat = Literal["png", "nifti", "dicom-seg"]
MASK_FORMATS: tuple[MaskFormat, ...] = get_args(MaskFormat)
ENDINGS: dict[MaskFormat, tuple[str, ...]] = {
    "png": (".png",),
    "nifti": (".nii.gz", ".nii"),
    "dicom-seg": (".dcm",),
}
LPS = np.diag([-1.0, -1.0, 1.0, 1.0])  # how a picture lies in a NIfTI file: columns to the left, rows to the back


def mask_suffix(image: Path, to: MaskFormat | None = None) -> str:
    """The ending of the mask of the file `image`: `.png` for pictures (DICOM photographs too), `.nii.gz` for volumes.

    `to` asks for a format instead. Pixels are not read; of a DICOM file only the header.
    """
    return ENDINGS[to or ("png" if is_picture(image) else "nifti")][0]


def check_format(images: Sequence[Path], to: MaskFormat | None) -> None:
    """Refuse, before any work, a format that cannot hold the masks of all of `images`; pixels are not read."""
    if to != "dicom-seg":
        return
    others = [image for image in images if kind_of(image) != "dicom"]
    if others:
        raise FedSuperError(f"--to dicom-seg: a DICOM SEG refers to DICOM files, and {len(others)} of {len(images)} "
                            f"images are none ({others[0].name} first); use --to png or nifti, or leave them out")


def write_mask(
    path: Path,
    mask_zhw: NDArray[np.generic],
    like: Image,
    to: MaskFormat | None = None,
    names: Mapping[int, str] | None = None,
) -> None:
    """Write a mask `[Z, H, W]` in the grid, affine and header of the image it belongs to, whole or not at all.

    The format is `to`, or what the ending of `path` says. `names` are what the label values stand for (DICOM SEG).
    """
    path, mask = Path(path), np.asarray(mask_zhw)
    if mask.shape != like.stack_shape:
        raise ValueError(f"mask of shape {mask.shape} for an image of {like.stack_shape} slices, rows and columns")
    if mask.size and (mask.min() < 0 or mask.max() > 255):
        raise ValueError("mask values must lie in 0..255")
    chosen = _format_of(path, like, to)
    mask = mask.astype(np.uint8, copy=False)
    if chosen == "png":
        raster.write_png(path, mask[0])
    elif chosen == "dicom-seg":
        planes = mask if like.affine is None else _in_file_order(mask, like).transpose(2, 1, 0)
        dicom_seg.write_segmentation(path, planes, like.header, names)
    elif like.affine is None:
        nifti.write_nifti(path, mask.transpose(2, 1, 0), LPS)
    else:
        header = like.header if like.kind == "nifti" else None
        nifti.write_nifti(path, _in_file_order(mask, like), like.affine, header)


def _in_file_order(mask: NDArray[np.uint8], like: Image) -> NDArray[np.uint8]:
    return np.ascontiguousarray(like.frame.to_file(mask)).reshape(like.native_shape)


def _format_of(path: Path, like: Image, to: MaskFormat | None) -> MaskFormat:
    """The format to write, or one line on why it cannot hold this mask."""
    suffix = suffix_of(path)
    chosen = to or next((name for name, endings in ENDINGS.items() if suffix in endings), None)
    if chosen is None or suffix not in ENDINGS[chosen]:
        wanted = ENDINGS[chosen] if chosen else [ending for endings in ENDINGS.values() for ending in endings]
        raise DataProblem(path, f"cannot hold the mask of {like.path.name}", f"name it with {' or '.join(wanted)}")
    if chosen == "png" and like.stack_shape[0] != 1:
        what = f"a PNG cannot hold the {like.stack_shape[0]} slices of {like.path.name}"
        raise DataProblem(path, what, "write volumes as NIfTI")
    if chosen == "dicom-seg" and like.kind != "dicom":
        what = f"a DICOM SEG refers to DICOM files, and {like.path.name} is none"
        raise DataProblem(path, what, "write the mask as PNG or NIfTI")
    return chosen
