"""NIfTI-1 and NIfTI-2, plain or gzipped, through nibabel: voxels, affine and header, and masks in the same grid."""

from __future__ import annotations

import copy
import gzip
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedsuper.data.images.decoding import check_size, decoding
from fedsuper.data.images.geometry import SliceFrame, frame_of
from fedsuper.data.problems import DataProblem
from fedsuper.files import atomic_write

MAX_TRAILER = 2**20  # bytes that may follow the voxels
MAX_EXTENSIONS = 2**26  # bytes of header extensions that may stand before them
FIELDS = {348: (108, "fff"), 540: (168, "qdd")}  # by header size: place and types of vox_offset, scl_slope, scl_inter


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
        _check_start(path)
        image = nibabel.load(path)
        if not isinstance(image, (nibabel.Nifti1Image, nibabel.Nifti2Image)):
            raise DataProblem(path, f"is a {type(image).__name__}, not NIfTI", "convert it to NIfTI")
        check_size(path, image.shape, image.get_data_dtype().itemsize)
        if len(image.shape) < 2:
            raise DataProblem(path, f"has {len(image.shape)} axes, an image has at least two", "export it again")
        return image


def _check_start(path: Path) -> None:
    """Refuse a header that puts its voxels so far back that reading up to them fills the memory, or scales by infinity.

    nibabel reads up to the voxels at once, and takes an infinite slope for none.
    """
    with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as stream:
        start = stream.read(max(FIELDS))
    for order in "<>":
        size = struct.unpack_from(f"{order}i", start)[0] if len(start) >= 4 else 0
        if size not in FIELDS or len(start) < size:
            continue
        where, kinds = FIELDS[size]
        offset, slope, intercept = struct.unpack_from(order + kinds, start, where)
        if not 0 <= offset <= MAX_EXTENSIONS:
            what = f"puts its voxels at byte {offset:g}, behind a header of at most {MAX_EXTENSIONS}"
            raise DataProblem(path, what, "it is torn or made up: export it again")
        if math.isinf(slope) or math.isinf(intercept):
            raise DataProblem(path, "scales its values by an infinite number", "fix its header (scl_slope, scl_inter)")


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
        return shape, affine, frame_of(path, affine, shape)


def voxels_of(path: Path, image: Any) -> np.ndarray:
    """The scaled voxels as `[X, Y, Z, C]`: a fourth (or fifth, for vectors) axis and RGB voxels are channels."""
    with decoding(path):
        data = _scaled(image)
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


def _scaled(image: Any) -> np.ndarray:
    """The voxels by the header's slope and intercept, computed in float64 and kept in float32, slab by slab."""
    from nibabel.volumeutils import apply_read_scaling

    source = image.dataobj
    raw = np.asanyarray(source.get_unscaled()) if hasattr(source, "get_unscaled") else np.asanyarray(source)
    slope, intercept = getattr(source, "slope", 1.0), getattr(source, "inter", 0.0)
    if (slope, intercept) == (1.0, 0.0) or raw.dtype.names or np.iscomplexobj(raw):
        return np.asarray(raw)
    scaled = np.empty(raw.shape, np.float32, order="F")
    with np.errstate(over="ignore", invalid="ignore"):  # what float32 cannot hold becomes infinite and is reported
        for index in range(raw.shape[-1]):
            scaled[..., index] = apply_read_scaling(raw[..., index], slope, intercept)
    return scaled


def write_volume(path: Path, voxels: np.ndarray, affine: np.ndarray) -> None:
    """Write `voxels` (the file's axis order, channels last) as a new NIfTI file with this place in the patient."""
    import nibabel

    image = nibabel.Nifti1Image(np.ascontiguousarray(voxels), affine)
    image.header.set_xyzt_units("mm")
    image.set_sform(affine, code="scanner")
    image.set_qform(affine, code="scanner")
    atomic_write(path, lambda temporary: image.to_filename(temporary))


def write_nifti(path: Path, mask: np.ndarray, affine: np.ndarray, header: Any = None) -> None:
    """Write `mask` (uint8, in the file's own axis order) with the image's affine and, where it has one, its header.

    Of the header only what describes intensities changes: data type, scaling, display window, intent.
    """
    import nibabel

    mask = mask.astype(np.uint8, copy=False)
    if header is None:
        write_volume(path, mask, affine)
        return
    header = copy.deepcopy(header)
    header.set_data_dtype(np.uint8)
    header.set_slope_inter(1, 0)
    header["cal_min"] = header["cal_max"] = 0  # the display window of the image would hide label values
    header.set_intent("none")
    kind: Any = nibabel.Nifti2Image if isinstance(header, nibabel.Nifti2Header) else nibabel.Nifti1Image
    image = kind(mask, affine, header)
    atomic_write(path, lambda temporary: image.to_filename(temporary))
