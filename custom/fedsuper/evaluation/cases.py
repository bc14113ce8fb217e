"""Labelled images ready to be scored: prepared once, for all methods, seeds and modes of a comparison."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedsuper.config import Study
from fedsuper.data.image_io import read_image, read_label
from fedsuper.data.layout import Item, list_items
from fedsuper.data.preprocess import Preprocess, prepare_image
from fedsuper.data.problems import DataProblem
from fedsuper.data.splits import PARTS, RATIOS, split_folder
from fedsuper.data.task import Task
from fedsuper.data.task_fit import check_label_values

ALL = "all"


@dataclass(frozen=True)
class LabelledCase:
    """One image (a volume is one image): the nets' input `[Z, C, S, S]` and the true label in the image's own grid.

    The label is kept compressed: it is mostly background, and a site's test set then fits in memory at any image size.
    """

    name: str
    case: str
    images: torch.Tensor
    shape: tuple[int, int, int]
    packed_label: bytes

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of a slice."""
        return self.shape[1], self.shape[2]

    def label(self) -> np.ndarray:
        """Label values, uint8 `[Z, H, W]`."""
        return np.frombuffer(zlib.decompress(self.packed_label), dtype=np.uint8).reshape(self.shape)


def load_case(item: Item, task: Task, preprocess: Preprocess) -> LabelledCase:
    """Read and prepare one image with its label."""
    if item.label is None:
        raise DataProblem(item.image, "has no label", "add it to labels/; only labelled images can be scored")
    image = read_image(item.image)
    label = read_label(item.label, image)
    check_label_values(label, task, item.label)
    packed = zlib.compress(label.astype(np.uint8).tobytes(), level=1)
    prepared = prepare_image(image, preprocess, task.channels)
    return LabelledCase(item.name, item.case, prepared, image.stack_shape, packed)


def split_of(folder: Path, study: Study, task: Task, split: str) -> list[Item]:
    """The items of one part of a site's split, the same that training made from `study`; `all` is every image."""
    if split not in (*PARTS, ALL):
        raise DataProblem(folder, f"has no part '{split}'", f"use {', '.join(PARTS)} or {ALL}")
    if split == ALL:
        return list_items(folder, require_labels=True)
    return split_folder(folder, task, RATIOS[study.split.ratios], study.split.seed)[split]


class CaseStore:
    """The cases of a data root, loaded when first asked for and kept for the next method, seed or mode."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self._kept: dict[str, list[LabelledCase]] = {}

    def cases(self, site: str, split: str, study: Study, task: Task, preprocess: Preprocess) -> list[LabelledCase]:
        """One part of one site's images, as the study prepares and splits them."""
        key = json.dumps([site, split, study.split.model_dump(), task.to_json(), preprocess.to_json()])
        if key not in self._kept:
            items = split_of(self.root / site, study, task, split)
            self._kept[key] = [load_case(item, task, preprocess) for item in items]
        return self._kept[key]


def chunks(cases: list[LabelledCase], slices: int = 64) -> Iterator[list[LabelledCase]]:
    """Consecutive cases in portions of about `slices` slices: enough to fill batches, little enough for memory."""
    portion: list[LabelledCase] = []
    for case in cases:
        portion.append(case)
        if sum(len(one.images) for one in portion) >= slices:
            yield portion
            portion = []
    if portion:
        yield portion
