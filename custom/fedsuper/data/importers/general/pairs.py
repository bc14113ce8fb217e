"""An image and its mask of any task, read by the data room's own readers, with mask values mapped."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedsuper.data.images.io import Image, read_image, read_label
from fedsuper.data.images.masks import mask_suffix, write_mask
from fedsuper.data.images.nifti import write_volume
from fedsuper.data.importers.base import Importer, Kept, Made, Pair, Survey, UnusableCaseError
from fedsuper.data.importers.general.label_map import LabelMap, apply_label_map
from fedsuper.data.layout import LABEL_SUFFIXES, suffix_of
from fedsuper.data.task import Task

NO_MAP: LabelMap = {}
TWO_FILES = ".mhd"  # its voxels lie in another file, which would not come along


@dataclass
class PairReader:
    """Reads pairs and remembers what a task must know of them: label values and channels."""

    label_map: LabelMap
    values: set[int] = field(default_factory=set)
    channels: set[int] = field(default_factory=set)

    def read(self, image_path: Path, label_path: Path) -> Pair:
        """The pair, its files kept as they are where nothing has to change."""
        image = read_image(image_path)
        stored = read_label(label_path, image)
        mapped = apply_label_map(stored, self.label_map)
        found = {int(value) for value in np.unique(mapped)}
        if not found <= set(range(256)):
            raise UnusableCaseError(f"{label_path.name} holds the values {sorted(found)[:6]}, labels lie in 0..255")
        self.values |= found
        self.channels.add(image.array.shape[1])
        return Pair(_image_file(image), _label_file(label_path, mapped, np.array_equal(mapped, stored), image))

    def task(self, name: str) -> Task:
        """A task of what was read, a region for every label value; for a data root that has none yet."""
        if self.values <= {0, 255}:
            raise UnusableCaseError("every mask holds 0 and 255; add --map 255=1")
        regions: dict[str, tuple[int, ...]] = {f"label-{value}": (value,) for value in sorted(self.values - {0})}
        return Task(name, max(self.channels), regions)


class MappedSurvey(Protocol):
    """A survey whose pairs are read with mask values mapped."""

    def __call__(self, raw: Path, part: str | None, label_map: LabelMap) -> Survey:
        """What the raw folder holds."""


def importer_of_any_task(
    source: str, expects: str, survey: MappedSurvey, about: str, label_map: LabelMap = NO_MAP
) -> Importer:
    """The importer, and through `remapped` the same with other mask values."""
    again = partial(importer_of_any_task, source, expects, survey, about)
    return Importer(source, None, expects, partial(survey, label_map=label_map), about=about, remapped=again)


def _image_file(image: Image) -> Kept | Made:
    suffix = suffix_of(image.path)
    if suffix is not None and suffix != TWO_FILES:
        return Kept(image.path, {".jpeg": ".jpg", ".tiff": ".tif"}.get(suffix, suffix))
    if image.affine is None:  # a DICOM photograph without an ending
        return Kept(image.path, ".dcm")
    affine = image.affine
    voxels = image.frame.to_file(image.array.transpose(0, 2, 3, 1))
    return Made(".nii.gz", lambda path: write_volume(path, np.squeeze(voxels, axis=3), affine))


def _label_file(path: Path, mapped: NDArray[np.int32], unchanged: bool, image: Image) -> Kept | Made:
    suffix = suffix_of(path, LABEL_SUFFIXES)
    if unchanged and suffix is not None and suffix != TWO_FILES:
        return Kept(path, ".tif" if suffix == ".tiff" else suffix)
    return Made(mask_suffix(image.path), lambda target: write_mask(target, mapped, image))
