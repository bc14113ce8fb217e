"""NIfTI-1 and NIfTI-2, plain or gzipped, through nibabel: voxels, affine and header, and masks in the same grid."""

from __future__ import annotations

import copy
import gzip
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedsuper.data.decoding import check_size, decoding
from fedsuper.data.geometry import SliceFrame, slice_frame
from fedsuper.data.problems import DataProblem
from fedsuper.files import atomic_write

MAX_TRAILER = 2**20  # bytes that may follow the voxels


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep nibabel from remarking on harmless headers (an odd voxel offset, say) in the middle of other output."""
    from nibabel.imageglobals import logger

    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def open_header(path: Path) -> Any:
    """The nibabel image of `path` with its header checked and its voxels not yet read."""
    import nibabel

    with decoding(path), _quiet():
        image = nibabel.load(path)
        if not isinstance(image, (nibabel.Nifti1Image, nibabel.Nifti2Image)):
            raise DataProblem(path, f"is a {type(image).__name__}, not NIfTI", "convert it to NIfTI")
        check_size(path, image.shape)
        return image


def load_nifti(path: Path) -> Any:
    """The nibabel image of `path`, its bytes proved complete."""
    image = open_header(path)
    if not path.name.lower().endswith(".gz"):
        return image
    with decoding(path), _quiet(), gzip.open(path) as stream:
        voxels = image.dataobj
        data = stream.read(int(voxels.offset) + math.prod(voxels.shape) * voxels.dtype.itemsize)
        # Go on to the end of the stream, where gzip keeps its checksum; nibabel alone would stop before it.
        if len(stream.read(MAX_TRAILER)) == MAX_TRAILER:
            raise DataProblem(path, "holds far more data than its header says", "export it again")
        return type(image).from_bytes(data)


def grid_of(path: Path, image: Any) -> tuple[tuple[int, ...], np.ndarray, SliceFrame]:
    """The spatial shape (three axes), affine and slice frame of a nibabel image."""
    with decoding(path):
        shape = (*image.shape, 1, 1)[:3]
        affine = np.asarray(image.affine, dtype=np.float64)
        try:
            return shape, affine, slice_frame(affine, shape)
        except ValueError as error:
            raise DataProblem(path, str(error), "mend its header (sform or qform) or export it again") from None


def voxels_of(path: Path, image: Any) -> np.ndarray:
    """The scaled voxels as `[X, Y, Z, C]`: a fourth (or fifth, for vectors) axis and RGB voxels are channels."""
    with decoding(path):
        data = np.asanyarray(image.dataobj)
        if data.dtype.names:  # RGB24 or RGBA32
            data = np.stack([data[name] for name in data.dtype.names[:3]], axis=-1)
        if np.iscomplexobj(data):
            raise DataProblem(path, "holds complex numbers", "export the magnitude image")
        while data.ndim < 3:
            data = data[..., None]
        if data.ndim == 5 and data.shape[3] == 1:
            data = data[:, :, :, 0]
        if data.ndim == 3:
            data = data[..., None]
        if data.ndim != 4:
            raise DataProblem(path, f"has {data.ndim} axes (shape {image.shape})", "save one volume per file")
        return data


def channels_of(image: Any) -> int:
    """The channels `voxels_of` would give, from the header alone."""
    if image.header.get_data_dtype().names:
        return 3
    return int(np.prod(image.shape[3:], dtype=int))


def write_nifti(path: Path, mask: np.ndarray, affine: np.ndarray | None, header: Any = None) -> None:
    """Write `mask` (uint8, in the file's own axis order) with the image's affine and, where it has one, its header.

    Of the header only what describes intensities changes: data type, scaling, display window, intent.
    """
    import nibabel

    mask = mask.astype(np.uint8)
    if header is None:
        image = nibabel.Nifti1Image(mask, affine)
        image.header.set_xyzt_units("mm")
        image.set_sform(affine, code="scanner")
        image.set_qform(affine, code="scanner")
    else:
        header = copy.deepcopy(header)
        header.set_data_dtype(np.uint8)
        header.set_slope_inter(1, 0)
        header["cal_min"] = header["cal_max"] = 0  # the display window of the image would hide label values
        header.set_intent("none")
        kind = nibabel.Nifti2Image if isinstance(header, nibabel.Nifti2Header) else nibabel.Nifti1Image
        image = kind(mask, affine, header)
    atomic_write(path, lambda temporary: image.to_filename(temporary))
