"""Labeled images ready to be scored: prepared once, for all methods, seeds and modes of a comparison."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedsuper.config import Study
from fedsuper.data.doctor.task_fit import check_label_values
from fedsuper.data.frozen_split import FROZEN_FILE, FrozenSplit, read_frozen
from fedsuper.data.images.io import read_image, read_label
from fedsuper.data.layout import Item, list_items
from fedsuper.data.preprocess import Preprocess, prepare_image
from fedsuper.data.problems import DataProblem
from fedsuper.data.splits import PARTS, RATIOS, SPLITS_FILE, Split, split_folder
from fedsuper.data.task import Task
from fedsuper.evaluation.metrics.boundaries import Spacing

ALL = "all"
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class LabeledCase:
    """One image (a volume is one image): the nets' input `[Z, C, S, S]` and the true label in the image's own grid.

    The label is kept compressed: it is mostly background, and a site's test set then fits in memory at any image size.
    """

    name: str
    case: str
    images: torch.Tensor
    shape: tuple[int, int, int]
    packed_label: bytes
    spacing: Spacing | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of a slice."""
        return self.shape[1], self.shape[2]

    def label(self) -> np.ndarray:
        """Label values, uint8 `[Z, H, W]`."""
        return np.frombuffer(zlib.decompress(self.packed_label), dtype=np.uint8).reshape(self.shape)


def load_case(item: Item, task: Task, preprocess: Preprocess) -> LabeledCase:
    """Read and prepare one image with its label."""
    if item.label is None:
        raise DataProblem(item.image, "has no label", "add it to labels/; only labeled images can be scored")
    image = read_image(item.image)
    label = read_label(item.label, image)
    check_label_values(label, task, item.label)
    packed = zlib.compress(label.astype(np.uint8).tobytes(), level=1)
    prepared = prepare_image(image, preprocess, task.channels)
    return LabeledCase(item.name, item.case, prepared, image.stack_shape, packed, image.spacing)


def splits_beside(folder: Path) -> dict[str, FrozenSplit]:
    """The frozen splits that the run of a super model's folder left beside it, by digest."""
    above = Path(folder).absolute().parent
    return splits_in([*sorted((above / "state" / "sites").glob("*")), above])


def splits_in(states: Sequence[Path]) -> dict[str, FrozenSplit]:
    """The frozen splits that trainings left in these state folders, by digest."""
    files = [path for state in states if (path := state / FROZEN_FILE).is_file()]
    return {split.digest: split for path in files for split in read_frozen(path).values()}


class CaseStore:
    """The cases of a data root, loaded when first asked for and kept for the next method, seed or mode."""

    def __init__(self, root: Path, frozen: Mapping[str, FrozenSplit] | None = None) -> None:
        self.root = Path(root)
        self.frozen = dict(frozen or {})
        self._kept: dict[str, list[LabeledCase]] = {}
        self._told: set[str] = set()

    def cases(
        self, site: str, split: str, study: Study, task: Task, preprocess: Preprocess, digest: str | None = None
    ) -> list[LabeledCase]:
        """One part of one site's images, prepared as the study says and split as `items` does."""
        key = json.dumps([site, split, digest, study.split.model_dump(), task.to_json(), preprocess.to_json()])
        if key not in self._kept:
            items = self.items(site, split, study, task, digest)
            self._kept[key] = [load_case(item, task, preprocess) for item in items]
        return self._kept[key]

    def items(self, site: str, split: str, study: Study, task: Task, digest: str | None = None) -> list[Item]:
        """One part of a site's split; `all` is every image.

        `digest` names the split that training froze. Where its file is not at hand the split is made again, and refused
        if it comes out otherwise: images the model was trained on would be scored as if it had never seen them.
        """
        folder = self.root / site
        if split not in (*PARTS, ALL):
            raise DataProblem(folder, f"has no part '{split}'", f"use {', '.join(PARTS)} or {ALL}")
        if split == ALL:
            return list_items(folder, require_labels=True)
        if digest in self.frozen:
            return self._thawed(folder, self.frozen[digest])[split]
        made = split_folder(folder, task, RATIOS[study.split.ratios], study.split.seed)
        if digest is not None and FrozenSplit.of(made).digest != digest:
            raise DataProblem(folder, "is not split as in training: its images or labels changed since", "keep the "
                              f"super model in its run folder, or write the split of training into {SPLITS_FILE}")
        return made[split]

    def _thawed(self, folder: Path, frozen: FrozenSplit) -> Split:
        split, changes = frozen.apply(folder, list_items(folder, require_labels=False))
        for line in changes.lines(folder):
            if line not in self._told:
                LOG.warning("%s", line)
                self._told.add(line)
        return split


def chunks(cases: list[LabeledCase], slices: int = 64) -> Iterator[list[LabeledCase]]:
    """Cases in portions of about `slices` slices: enough to fill batches, little enough for memory.

    A patient's images stay together, because they vote together.
    """
    patients: dict[str, list[LabeledCase]] = {}
    for case in cases:
        patients.setdefault(case.case, []).append(case)
    portion: list[LabeledCase] = []
    for own in patients.values():
        portion += own
        if sum(len(one.images) for one in portion) >= slices:
            yield portion
            portion = []
    if portion:
        yield portion
