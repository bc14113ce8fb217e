"""What the user named to predict on: files, folders, sites or whole data roots, as a list with a mask name for each."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsuper.data.image_io import kind_of
from fedsuper.data.layout import find_sites, list_items, stem_of, suffix_of
from fedsuper.data.problems import DataProblem
from fedsuper.errors import FedSuperError


@dataclass(frozen=True)
class Job:
    """One image to segment and the file name of its mask."""

    image: Path
    mask: str


def find_images(inputs: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The images behind `inputs`, each once, and one line for every input that leads to none.

    A folder stands for its images; a site's folder for those in its `images/`; a data root for all its sites'; a folder
    of DICOM slices is one image.
    """
    found: dict[Path, Path] = {}
    problems = []
    for given in inputs:
        try:
            for image in _images_of(Path(given)):
                found.setdefault(image.resolve(), image)
        except FedSuperError as problem:
            problems.append(str(problem))
    return list(found.values()), problems


def plan(images: Sequence[Path]) -> list[Job]:
    """A mask name for every image: its own stem, with the folders that tell namesakes apart in front.

    `.png` for pictures, `.nii.gz` for volumes. Names that differ only in case count as equal, as some file systems do.
    """
    namesakes: dict[str, list[Path]] = defaultdict(list)
    for image in images:
        namesakes[stem_of(image).casefold()].append(image.parent.resolve())
    taken: set[str] = set()
    jobs = []
    for image in images:
        stem = stem_of(image)
        parents = namesakes[stem.casefold()]
        folders = image.parent.resolve().relative_to(os.path.commonpath(parents)).parts
        stem = "_".join([*(part for part in folders if part != "images"), stem])
        number, unique = 1, stem
        while unique.casefold() in taken:
            number += 1
            unique = f"{stem}-{number}"
        taken.add(unique.casefold())
        jobs.append(Job(image, unique + (".png" if kind_of(image) == "raster" else ".nii.gz")))
    return jobs


def _images_of(given: Path) -> list[Path]:
    if not given.exists():
        raise DataProblem(given, "does not exist", "check the path")
    if not given.is_dir():
        kind_of(given)
        return [given]
    entries = sorted(entry for entry in given.iterdir() if not entry.name.startswith("."))
    if any(suffix_of(entry) == ".dcm" for entry in entries):
        return [given]
    if (given / "images").is_dir():
        return [item.image for item in list_items(given, require_labels=False)]
    if any((entry / "images").is_dir() for entry in entries):
        return [item.image for site in find_sites(given) for item in list_items(given / site, require_labels=False)]
    images = [entry for entry in entries if _is_image(entry)]
    if not images:
        raise DataProblem(given, "holds no image", "give images, a folder of images, or a site's folder")
    return images


def _is_image(entry: Path) -> bool:
    if entry.is_dir():
        return any(suffix_of(inner) == ".dcm" for inner in entry.iterdir())
    return suffix_of(entry) is not None
