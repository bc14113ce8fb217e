"""ORIGA-light: 650 fundus photographs; masks as MATLAB arrays of 0 background, 1 rim, 2 cup."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from fedsuper.data.images.decoding import decoding
from fedsuper.data.images.raster import read_indices
from fedsuper.data.importers.base import RETINA, Entry, Importer, Survey, UnusableCaseError
from fedsuper.data.importers.readers.pictures import Label, photograph_pair
from fedsuper.data.importers.readers.raw_files import by_stem, files_under, in_folder, with_suffix

IMAGE_FOLDERS = ("Images", "650image", "origa650")
MASK_FOLDERS = ("Semi-automatic-annotations", "650mask", "manual marking", "Masks", "mask")
ARRAYS = ("mask", "maskFull")  # the names the array has in the copies of the set that are about


def read_label(path: Path) -> Label:
    """The label in a `.mat` file, or in a PNG whose stored values are the label's."""
    label = read_indices(path) if path.suffix.lower() == ".png" else _read_mat(path)
    values = np.unique(label)
    if label.ndim != 2 or not np.isin(values, (0, 1, 2)).all():
        shown = ", ".join(str(value) for value in values[:6])
        raise UnusableCaseError(f"{path.name} should hold 0 background, 1 rim, 2 cup; it holds {shown}")
    return label.astype(np.uint8)


def _read_mat(path: Path) -> np.ndarray:
    from scipy.io import loadmat

    with decoding(path):
        content = loadmat(str(path), variable_names=ARRAYS)
    array = next((content[name] for name in ARRAYS if name in content), None)
    if array is None:
        raise UnusableCaseError(f"{path.name} holds no array {' or '.join(ARRAYS)}")
    return np.asarray(array)


def survey(raw: Path, part: str | None) -> Survey:
    """`Images/NNN.jpg` with `NNN.mat`; a PNG mask is taken where there is no `.mat`."""
    found = Survey()
    files = files_under(raw)
    masks = in_folder(files, *MASK_FOLDERS)
    labels = by_stem([*with_suffix(masks, ".mat"), *with_suffix(masks, ".png")])
    for name, image in sorted(by_stem(in_folder(with_suffix(files, ".jpg", ".jpeg"), *IMAGE_FOLDERS)).items()):
        if name not in labels:
            found.skip(name, f"no mask {name}.mat")
            continue
        found.entries.append(Entry(name, partial(photograph_pair, image, partial(read_label, labels[name]))))
    return found


ORIGA = Importer(
    "origa",
    RETINA,
    "Images/NNN.jpg with Semi-automatic-annotations/NNN.mat (or 650image with 650mask)",
    survey,
    about="650 fundus photographs",
)
