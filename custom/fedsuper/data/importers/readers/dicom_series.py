"""DICOM series as volumes, through the data room's own reader (needs the extra `dicom`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from fedsuper.data.images.dicom import load_voxels, open_series
from fedsuper.data.importers.readers.raw_files import with_suffix
from fedsuper.data.importers.readers.volumes import Volume


def series_folders(files: Iterable[Path]) -> list[Path]:
    """The folders that hold `.dcm` files: one series each, as archives hand them out."""
    return sorted({path.parent for path in with_suffix(files, ".dcm")})


def read_series(folder: Path) -> Volume:
    """The volume of a series, its slices in order; whole numbers stay whole."""
    series = open_series(folder, pixels=True)
    voxels = load_voxels(series)[..., 0]
    whole = np.rint(voxels)
    if np.array_equal(whole, voxels) and np.abs(whole).max(initial=0) < 2**15:
        voxels = whole.astype(np.int16)
    return Volume(voxels, series.affine)
