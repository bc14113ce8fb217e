"""What a site looks up in its files before round 1: sizes, intensities, which regions are there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsuper.data.doctor.task_fit import check_label_values, match_channels
from fedsuper.data.images.io import Image, kind_of, read_image, read_label
from fedsuper.data.layout import Item
from fedsuper.data.task import Task

QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)


@dataclass(frozen=True)
class ItemFacts:
    """One image and its label in numbers; `areas` is each region's share of the label, None without a label."""

    channels: int
    size: tuple[int, int, int]
    spacing: tuple[float, ...] | None
    quantiles: list[float]
    areas: tuple[float, ...] | None


class Survey:
    """Opens each image and each label once, however many questions are asked of it."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._facts: dict[Path, ItemFacts] = {}
        self._areas: dict[Path, tuple[float, ...]] = {}

    def facts(self, item: Item) -> ItemFacts:
        """Image and label together; raises the first problem of either file, as training would."""
        if item.image not in self._facts:
            image = read_image(item.image)
            match_channels(image.array, self.task.channels, item.image)
            self._facts[item.image] = ItemFacts(
                channels=image.array.shape[1],
                size=image.stack_shape,
                spacing=image.spacing,
                quantiles=np.quantile(image.array, QUANTILES).tolist(),
                areas=None if item.label is None else self._areas_of(item.label, image),
            )
        return self._facts[item.image]

    def presence(self, item: Item) -> tuple[bool, ...]:
        """Which of the task's regions the item's label shows: what a split is balanced by."""
        areas = (0.0,) * len(self.task.regions) if item.label is None else self._areas_of(item.label)
        return tuple(area > 0 for area in areas)

    def slices(self, item: Item) -> int:
        """How many samples the item gives: a volume has one per slice."""
        return 1 if kind_of(item.image) == "raster" else self.facts(item).size[0]

    def _areas_of(self, path: Path, image: Image | None = None) -> tuple[float, ...]:
        if path not in self._areas:
            label = read_label(path, image)
            if image is not None:
                check_label_values(label, self.task, path)
            self._areas[path] = tuple(float(np.isin(label, values).mean()) for values in self.task.regions.values())
        return self._areas[path]
