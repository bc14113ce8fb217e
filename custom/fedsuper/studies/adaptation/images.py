"""The images of a hospital that did not train, labeled or not, prepared for a super model's nets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from fedsuper.core.feature_sums import MINIMUM_IMAGES, MINIMUM_PATIENTS, FeatureSums
from fedsuper.data.dataset import load_samples
from fedsuper.data.images.io import read_image
from fedsuper.data.layout import Item, list_items
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.splits import RATIOS, split_folder
from fedsuper.errors import FedSuperError
from fedsuper.inference.predictor import Predictor
from fedsuper.train.loop import predict as forward


@dataclass(frozen=True)
class SiteImages:
    """One hospital's folder: `items` and their prepared slices, `slices[i]` of item i."""

    folder: Path
    items: list[Item]
    slices: list[torch.Tensor]

    @property
    def name(self) -> str:
        """The hospital."""
        return self.folder.name

    def all(self) -> torch.Tensor:
        """Every slice of every image, `[N, C, S, S]`."""
        return torch.cat(self.slices)

    def labeled(self) -> list[Item]:
        """The items with a label."""
        return [item for item in self.items if item.label is not None]


def read_site(predictor: Predictor, folder: Path, part: str = "all") -> SiteImages:
    """Read the images of `ROOT/<site>`; `part` "train" takes those a study would train on."""
    folder = Path(folder).resolve()
    items = list_items(folder, require_labels=False)
    if part == "train":
        split = predictor.study.split
        items = split_folder(folder, predictor.task, RATIOS[split.ratios], split.seed)["train"]
    if not items:
        raise FedSuperError(f"{folder}: holds no images; give a site folder with images/ in it")
    return SiteImages(folder, items, [predictor.prepare(read_image(item.image)) for item in items])


def labeled_samples(predictor: Predictor, site: SiteImages) -> Samples:
    """The labeled images with their labels."""
    return load_samples(site.folder, site.labeled(), predictor.task, predictor.preprocess)


def sums_of_site(predictor: Predictor, site: SiteImages) -> FeatureSums | None:
    """The sums of all of a hospital's images; None where they are too few to say nothing of each."""
    images = site.all()
    if len(images) < MINIMUM_IMAGES or len({item.case for item in site.items}) < MINIMUM_PATIENTS:
        return None
    return FeatureSums.of(forward(predictor.feature_net(), images, predictor.compute).double())
