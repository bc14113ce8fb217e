"""A site's own data, as a study wants it: split by patient, prepared once, kept in memory while the process lives."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fedsuper.config import Study
from fedsuper.data.dataset import Samples, concat, load_samples
from fedsuper.data.layout import Item, find_sites, resolve_site
from fedsuper.data.preprocess import Preprocess
from fedsuper.data.splits import RATIOS, split_folder
from fedsuper.data.task import Task, read_task

POOLED_SITE = "centralized"


@dataclass(eq=False)
class SiteData:
    """What `ROOT/<site>` holds. `cache` is where prepared images may be kept between processes."""

    name: str
    root: Path
    cache: Path
    _kept: dict[str, Samples] = field(default_factory=dict)

    def task(self) -> Task:
        """The task this site's dataset.json names."""
        return read_task(self.root)

    def folders(self) -> list[Path]:
        """The site's folder; the pooled pseudo-site of centralized training sees all of them."""
        if self.name == POOLED_SITE and not (self.root / self.name).is_dir():
            return [self.root / site for site in find_sites(self.root)]
        return [resolve_site(self.root, self.name)]

    def splits(self, study: Study) -> dict[Path, dict[str, list[Item]]]:
        """Folder to its items by part (train, val, test)."""
        task = self.task()
        return {
            folder: split_folder(folder, task, RATIOS[study.split.ratios], study.split.seed)
            for folder in self.folders()
        }

    def samples(self, study: Study, part: str) -> Samples:
        """One part, prepared for the nets."""
        preprocess = Preprocess(image_size=study.image_size, **study.preprocess.model_dump())
        key = f"{part}|{preprocess.to_json()}|{study.split.model_dump_json()}"
        if key not in self._kept:
            task = self.task()
            limit = study.compute.cache_mb
            cache = self.cache if limit else None
            self._kept[key] = concat(
                [
                    load_samples(folder, parts[part], task, preprocess, cache, limit)
                    for folder, parts in self.splits(study).items()
                ]
            )
        return self._kept[key]
