"""What the doctor checks in one image and its label; runs in worker processes, so it takes and returns plain values."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from fedsuper.data.doctor.findings import Level
from fedsuper.data.doctor.task_fit import check_label_values, match_channels
from fedsuper.data.images import raster
from fedsuper.data.images.io import Image, kind_of, read_image, read_label
from fedsuper.data.layout import Item
from fedsuper.data.problems import DataProblem
from fedsuper.data.task import Task

MIN_SIDE = 16
PLAUSIBLE_MM = (0.005, 50.0)


@dataclass
class FileReport:
    """One item: what was found in its files, and the facts that are compared between items."""

    item: Item
    notes: list[tuple[Level, DataProblem]] = field(default_factory=list)
    digest: str | None = None
    channels: int | None = None
    spacing: tuple[float, float, float] | None = None
    shown: tuple[bool, ...] | None = None  # which regions the label shows

    def note(self, level: Level, where: Path, what: str, fix: str) -> None:
        """Add something found."""
        self.notes.append((level, DataProblem(where, what, fix)))


def check_item(item: Item, task: Task) -> FileReport:
    """Read an item's image and label as training would, and report what is wrong with either."""
    report = FileReport(item)
    image: Image | None = None
    try:
        image = read_image(item.image)
        _check_image(report, image, task)
    except DataProblem as problem:
        report.notes.append(("error", problem))
    if item.label is not None:
        try:
            _check_label(report, item.label, image, task)
        except DataProblem as problem:
            report.notes.append(("error", problem))
    return report


def _check_image(report: FileReport, image: Image, task: Task) -> None:
    array, path = image.array, image.path
    report.channels, report.spacing = array.shape[1], image.spacing
    if float(array.min()) == float(array.max()):
        fix = "export it again, or remove it with its label"
        report.note("error", path, f"is constant (every pixel is {float(array.flat[0]):g})", fix)
    else:  # constant images are all alike and would count as copies of one another
        report.digest = f"{array.shape} {hashlib.blake2b(array.data, digest_size=16).hexdigest()}"
    if min(image.size) < MIN_SIDE:
        report.note("warning", path, f"is only {image.size[0]} by {image.size[1]} pixels", "check that it is the image")
    if image.spacing and not all(PLAUSIBLE_MM[0] <= side <= PLAUSIBLE_MM[1] for side in image.spacing):
        sides = " x ".join(f"{side:g}" for side in image.spacing)
        report.note("warning", path, f"has the implausible spacing {sides} mm", "fix its header (pixdim, affine)")
    if kind_of(path) == "raster" and raster.exif_orientation(path) != 1:
        fix = "make sure the label is drawn on the upright picture"
        report.note("warning", path, "is turned by its EXIF tag", fix)
    match_channels(array, task.channels, path)


def _check_label(report: FileReport, path: Path, image: Image | None, task: Task) -> None:
    label = read_label(path, image)
    values = set(check_label_values(label, task, path))
    report.shown = tuple(not values.isdisjoint(region) for region in task.regions.values())
    if values == {0}:
        report.note("warning", path, "is empty (background only)", "right if the image shows no region; else draw it")
    elif 0 not in values:
        report.note("warning", path, "has no background", "check that the mask is not inverted or cropped")
