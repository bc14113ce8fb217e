"""A site's own data, as a study wants it: split by patient, prepared once, kept in memory while the process lives."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedsuper.config import Study
from fedsuper.data.dataset import concat, load_samples
from fedsuper.data.fingerprint import content_digest, fingerprint
from fedsuper.data.frozen_split import FROZEN_FILE, FrozenSplit, SplitChanges, read_frozen, write_frozen
from fedsuper.data.layout import Item, find_sites, list_items, resolve_site
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.preprocess import Preprocess
from fedsuper.data.problems import DataProblem
from fedsuper.data.splits import PARTS, RATIOS, SPLITS_FILE, Split, split_folder
from fedsuper.data.survey import Survey
from fedsuper.data.task import Task, read_task

POOLED_SITE = "centralized"
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class SiteFacts:
    """What a site tells of its data before round 1; none of it is of a single patient.

    `samples` counts what nets see (a volume's slices) by part. `splits` has a digest of each folder's split, by the
    site's name (by folder where one pseudo-site pools several). `changes` counts images that were added, removed or
    given to another case since the split was frozen. `data` is a digest of all images and labels.
    """

    samples: dict[str, int]
    fingerprint: dict[str, Any]
    splits: dict[str, str]
    changes: dict[str, int]
    data: str


@dataclass(eq=False)
class SiteData:
    """What `ROOT/<site>` holds. `state` is the site's state folder: its frozen split, and prepared images to keep."""

    name: str
    root: Path
    state: Path
    _kept: dict[str, Samples] = field(default_factory=dict)
    _splits: dict[Path, Split] = field(default_factory=dict)

    def task(self) -> Task:
        """The task this site's dataset.json names."""
        return read_task(self.root)

    def folders(self) -> list[Path]:
        """The site's folder; the pooled pseudo-site of centralized training sees all of them."""
        if self.name == POOLED_SITE and not (self.root / self.name).is_dir():
            return [self.root / site for site in find_sites(self.root)]
        return [resolve_site(self.root, self.name)]

    def places(self) -> list[Path]:
        """The folders whose names must not leave the site; where its images are gone, the place where they were."""
        try:
            return self.folders()
        except DataProblem:
            return [self.root / self.name, self.root]

    def describe(self, study: Study, resume: bool) -> SiteFacts:
        """Freeze the split of a new run, take up that of a resumed one, and tell what may be told of the data."""
        task, folders = self.task(), self.folders()
        survey = Survey(task)
        if not resume:
            (self.state / FROZEN_FILE).unlink(missing_ok=True)
        self._kept.clear()
        printed = None
        if not (self.state / FROZEN_FILE).exists() and not (folders[0] / SPLITS_FILE).exists():
            # Images before the split: a label is then opened once, together with its image.
            every = {folder: list_items(folder, require_labels=True) for folder in folders}
            printed = fingerprint(folders[0], task, _together(every), survey)
        changes = self._take_up(study, survey)
        first = next(iter(self._splits))
        items = _together({folder: [item for part in PARTS for item in split[part]]
                           for folder, split in self._splits.items()})
        return SiteFacts(
            samples={part: sum(survey.slices(item) for split in self._splits.values() for item in split[part])
                     for part in PARTS},
            fingerprint=printed or fingerprint(first, task, items, survey),
            splits={folder if len(folders) > 1 else self.name: one.digest for folder, one in self._frozen().items()},
            changes={kind: sum(len(getattr(change, kind)) for change in changes)
                     for kind in ("added", "removed", "moved")},
            data=content_digest(item for split in self._splits.values() for part in PARTS for item in split[part]),
        )

    def splits(self, study: Study) -> dict[Path, Split]:
        """Folder to its items by part (train, val, test), as frozen before round 1."""
        if not self._splits:
            self._take_up(study, Survey(self.task()))
        return self._splits

    def samples(self, study: Study, part: str) -> Samples:
        """One part, prepared for the nets."""
        preprocess = Preprocess(image_size=study.image_size, **study.preprocess.model_dump())
        key = f"{part}|{preprocess.to_json()}"
        if key not in self._kept:
            task = self.task()
            limit = study.compute.cache_mb
            cache = self.state / "cache" if limit else None
            rest = self.state / "samples" if study.compute.samples == "disk" else None
            self._kept[key] = concat(
                [
                    load_samples(folder, parts[part], task, preprocess, cache, limit, rest)
                    for folder, parts in self.splits(study).items()
                ]
            )
        return self._kept[key]

    def _frozen(self) -> dict[str, FrozenSplit]:
        return read_frozen(self.state / FROZEN_FILE)

    def _take_up(self, study: Study, survey: Survey) -> list[SplitChanges]:
        """Put the folders' items into their frozen parts; where nothing is frozen yet, split and freeze."""
        ratios, seed = RATIOS[study.split.ratios], study.split.seed
        path = self.state / FROZEN_FILE
        if not path.exists():
            made = {folder: split_folder(folder, survey.task, ratios, seed, survey) for folder in self.folders()}
            write_frozen(path, {folder.name: FrozenSplit.of(split) for folder, split in made.items()})
        self._splits, changes = {}, []
        frozen = self._frozen()
        for folder in self.folders():
            if folder.name not in frozen:
                continue  # a hospital that came to the pool after the run began
            self._splits[folder], change = frozen[folder.name].apply(folder, list_items(folder, require_labels=False))
            changes.append(change)
            for line in change.lines(folder):
                LOG.warning("%s", line)
        if not self._splits:
            raise DataProblem(self.root, "holds no folder that this run split", "give the data root of the run")
        return changes


def _together(by_folder: Mapping[Path, Sequence[Item]]) -> list[Item]:
    """The items of all folders; patients of two hospitals may bear the same name."""
    if len(by_folder) == 1:
        return list(next(iter(by_folder.values())))
    return [replace(item, case=f"{folder.name}/{item.case}") for folder, items in by_folder.items() for item in items]
