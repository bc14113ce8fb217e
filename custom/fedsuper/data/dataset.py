"""From a site's files to its samples, in memory or in a mapped file."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import torch

from fedsuper.data.doctor.task_fit import check_label_values
from fedsuper.data.images.io import read_image, read_label
from fedsuper.data.layout import Item
from fedsuper.data.prepared.cache import SampleCache
from fedsuper.data.prepared.mapped import mapped_samples, side_by_side
from fedsuper.data.prepared.samples import Samples
from fedsuper.data.preprocess import Preprocess, prepare_image, prepare_label
from fedsuper.data.problems import DataProblem
from fedsuper.data.task import Task
from fedsuper.errors import FedSuperError


def load_samples(
    folder: Path,
    items: list[Item],
    task: Task,
    preprocess: Preprocess,
    cache_dir: Path | None = None,
    cache_limit_mb: int = 4096,
    rest_in: Path | None = None,
) -> Samples:
    """Read and prepare `items` of the site `folder`; with `cache_dir` the result is kept there for the next time.

    With `rest_in` the samples lie in files of that folder instead of in memory.
    """
    if not items:
        raise DataProblem(folder, "has no images in this part of the split", "add images, or correct splits.json")
    cache = None if cache_dir is None else SampleCache(Path(cache_dir), cache_limit_mb)
    if rest_in is not None:
        keys = [SampleCache(rest_in, 0).key(item.image, item.label, task, preprocess) for item in items if item.label]
        work = partial(_load, task=task, preprocess=preprocess, cache=None)
        return mapped_samples(rest_in, json.dumps(keys), lambda: side_by_side(work, items, f"preparing {folder.name}"))
    loaded = [_load(item, task, preprocess, cache) for item in items]
    if cache is not None:
        cache.trim()
    return concat(loaded)


def concat(parts: list[Samples]) -> Samples:
    """All samples of `parts`, in order."""
    if len(parts) == 1:
        return parts[0]
    shapes = {(part.images.shape[1:], part.masks.shape[1:]) for part in parts}
    if len(shapes) != 1:
        raise FedSuperError(f"samples of {len(shapes)} shapes cannot be joined; use one study's settings for all")
    return Samples(
        torch.cat([part.images for part in parts]),
        torch.cat([part.masks for part in parts]),
        [name for part in parts for name in part.names],
        [case for part in parts for case in part.cases],
    )


def _load(item: Item, task: Task, preprocess: Preprocess, cache: SampleCache | None) -> Samples:
    if item.label is None:
        raise DataProblem(item.image, "has no label", "add it to labels/, or remove the image")
    key = None if cache is None else cache.key(item.image, item.label, task, preprocess)
    pair = None if cache is None or key is None else cache.get(key)
    if pair is None:
        pair = _prepare(item.image, item.label, task, preprocess)
        if cache is not None and key is not None:
            cache.put(key, *pair)
    images, masks = pair
    count = len(images)
    names = [item.name] if count == 1 else [f"{item.name}#{index:04d}" for index in range(count)]
    return Samples(images, masks, names, [item.case] * count)


def _prepare(image_path: Path, label_path: Path, task: Task, p: Preprocess) -> tuple[torch.Tensor, torch.Tensor]:
    image = read_image(image_path)
    label = read_label(label_path, image)
    check_label_values(label, task, label_path)
    return prepare_image(image, p, task.channels), prepare_label(label, task.regions, p)
