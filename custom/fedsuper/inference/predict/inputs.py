"""What the user named to predict on: files, folders, sites or whole data roots, as a list with a mask name for each."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsuper.data.images.io import images_of_folder, kind_of
from fedsuper.data.images.masks import MaskFormat, mask_suffix
from fedsuper.data.layout import CASES_FILE, find_sites, list_items, scan_site, stem_of
from fedsuper.data.problems import DataProblem
from fedsuper.errors import FedSuperError


@dataclass(frozen=True)
class Job:
    """One image to segment and the file name of its mask."""

    image: Path
    mask: str


class _RealFolders(dict[Path, str]):
    """Where folders really are, each asked for once: a folder holds many images, and asking looks at every part."""

    def __missing__(self, folder: Path) -> str:
        self[folder] = os.path.realpath(folder)
        return self[folder]

    def path_of(self, file: Path) -> str:
        """Where a file really is."""
        if file.name in ("", "..") or file.is_symlink():
            return os.path.realpath(file)
        return os.path.join(self[file.parent], file.name)


def find_images(inputs: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The images behind `inputs`, each once, and one line for every input that leads to none.

    A folder stands for its images; a site's folder for those in its `images/`; a data root for all its sites'; a folder
    of DICOM slices is one image.
    """
    found: dict[str, Path] = {}
    problems = []
    folders = _RealFolders()
    for given in inputs:
        try:
            for image in _images_of(Path(given)):
                found.setdefault(folders.path_of(image), image)
        except FedSuperError as problem:
            problems.append(str(problem))
    return list(found.values()), problems


def patients_of(images: Sequence[Path]) -> list[str]:
    """The patient of every image: by the `cases.csv` beside a site's `images/`, else the image is its own."""
    known: dict[Path, dict[Path, str]] = {}
    found = []
    for image in images:
        folder = image.parent.parent
        if image.parent.name != "images" or not (folder / CASES_FILE).exists():
            found.append(str(image))
            continue
        if folder not in known:
            known[folder] = {item.image: item.case for item in scan_site(folder, require_labels=False).items}
        case = known[folder].get(image)
        found.append(str(image) if case is None else f"{folder}/{case}")
    return found


def plan(images: Sequence[Path], to: MaskFormat | None = None) -> list[Job]:
    """A mask name for every image: its own stem, with the folders that tell namesakes apart in front.

    `.png` for pictures, `.nii.gz` for volumes, unless `to` asks for another format. Names that differ only in case
    count as equal, as some file systems do.
    """
    namesakes: dict[str, list[str]] = defaultdict(list)
    real = _RealFolders()
    stems = [stem_of(image) for image in images]
    for image, stem in zip(images, stems, strict=True):
        namesakes[stem.casefold()].append(real[image.parent])
    taken: set[str] = set()
    jobs = []
    for image, stem in zip(images, stems, strict=True):
        parents = namesakes[stem.casefold()]
        if len(parents) > 1:
            folders = Path(real[image.parent]).relative_to(os.path.commonpath(parents)).parts
            stem = "_".join([*(part for part in folders if part != "images"), stem])
        number, unique = 1, stem
        while unique.casefold() in taken:
            number += 1
            unique = f"{stem}-{number}"
        taken.add(unique.casefold())
        jobs.append(Job(image, unique + mask_suffix(image, to)))
    return jobs


def _images_of(given: Path) -> list[Path]:
    if not given.exists():
        raise DataProblem(given, "does not exist", "check the path")
    if not given.is_dir():
        kind_of(given)
        return [given]
    if (given / "images").is_dir():
        return [item.image for item in list_items(given, require_labels=False)]
    if any((entry / "images").is_dir() for entry in given.iterdir() if not entry.name.startswith(".")):
        return [item.image for site in find_sites(given) for item in list_items(given / site, require_labels=False)]
    images = images_of_folder(given)
    if not images:
        raise DataProblem(given, "holds no image", "give images, a folder of images, or a site's folder")
    return images
