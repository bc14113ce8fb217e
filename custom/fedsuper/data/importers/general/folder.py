"""Images and masks of any task, as people keep them: two folders with the same names, or masks marked by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from fedsuper.data.importers.base import Survey
from fedsuper.data.importers.general.label_map import LabelMap
from fedsuper.data.importers.general.pairs import PairReader, importer_of_any_task
from fedsuper.data.importers.readers.raw_files import bare_name, files_under
from fedsuper.data.layout import VOXEL_FILES, is_dicom_file, suffix_of

IMAGE_FOLDERS = ("images", "image", "img", "imgs", "photographs", "scans")
LABEL_FOLDERS = (
    "labels",
    "label",
    "masks",
    "mask",
    "annotations",
    "gt",
    "groundtruth",
    "ground_truth",
    "segmentations",
)
MARK = re.compile(r"(.+?)[-_. ](mask|label|labels|seg|segmentation|gt|groundtruth)", re.IGNORECASE)


def survey(raw: Path, part: str | None, label_map: LabelMap) -> Survey:
    """A file in a folder `labels`, `masks`, ... or named `NAME_mask` (`_label`, `_seg`, `_gt`) is the mask of NAME."""
    reader = PairReader(label_map)
    found = Survey(task=partial(reader.task, raw.name), values=reader.values)
    files = [path for path in files_under(raw) if suffix_of(path) is not None or is_dicom_file(path)]
    labels, images = _sorted_out(raw, files)
    for name, image in images:
        missing = f"no mask {name} in a folder labels or masks, and no {name}_mask"
        found.add(name, partial(reader.read, image), {missing: labels.get(name)})
    return found


def _sorted_out(raw: Path, files: Iterable[Path]) -> tuple[dict[str, Path], list[tuple[str, Path]]]:
    """Masks by the name of their image, and the images in order (twins stay, to be told)."""
    labels: dict[str, Path] = {}
    images: list[tuple[str, Path]] = []
    for path in files:
        stem = bare_name(path)
        mark = MARK.fullmatch(stem)
        inside = {place.lower() for place in path.relative_to(raw).parts[:-1]}
        if inside & set(LABEL_FOLDERS) or (mark and not inside & set(IMAGE_FOLDERS)):
            labels.setdefault(mark[1] if mark else stem, path)
        elif path.suffix.lower() not in VOXEL_FILES:
            images.append((stem, path))
    return labels, images


FOLDER = importer_of_any_task(
    "folder",
    "images/NAME.* with labels/NAME.* or masks/NAME.* (or NAME.* with NAME_mask.* beside it), in any image format",
    survey,
    "your own images and masks, of any task",
)
