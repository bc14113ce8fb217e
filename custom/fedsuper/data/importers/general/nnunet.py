"""nnU-Net's raw layout (both versions): `imagesTr/CASE_0000.nii.gz`, `labelsTr/CASE.nii.gz` and a `dataset.json`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedsuper.data.images.io import read_image
from fedsuper.data.images.nifti import write_volume
from fedsuper.data.importers.base import Entry, Made, Pair, Survey, UnusableCaseError
from fedsuper.data.importers.general.label_map import LabelMap
from fedsuper.data.importers.general.pairs import PairReader, importer_of_any_task
from fedsuper.data.importers.readers.raw_files import bare_name, by_stem, files_under, in_folder
from fedsuper.data.layout import suffix_of
from fedsuper.data.problems import DataProblem
from fedsuper.data.task import RESERVED_REGIONS, TASK_FILE, Task
from fedsuper.data.text_files import read_json_object

CHANNEL = re.compile(r"(.+)_(\d{4})")
SETS = (("imagesTr", "labelsTr"), ("imagesTs", "labelsTs"))  # test images count where someone labeled them


def survey(raw: Path, part: str | None, label_map: LabelMap) -> Survey:
    """Every case of `imagesTr` with its label; a case of several files becomes one file of several channels."""
    reader = PairReader(label_map)
    found = Survey(task=partial(_task, raw, reader), values=reader.values)
    files = [path for path in files_under(raw) if suffix_of(path) is not None]
    for image_folder, label_folder in SETS:
        labels = by_stem(in_folder(files, label_folder))
        for name, channels in _cases(in_folder(files, image_folder)).items():
            if name not in labels:
                if label_folder == "labelsTr":
                    found.skip(name, f"no label {label_folder}/{name}")
                continue
            found.entries.append(Entry(name, partial(_read, reader, channels, labels[name])))
    return found


def _cases(files: list[Path]) -> dict[str, list[Path]]:
    """The files of every case, in the order of their channels."""
    cases: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(files):
        match = CHANNEL.fullmatch(bare_name(path))
        cases[match[1] if match else bare_name(path)].append(path)
    return dict(sorted(cases.items()))


def _read(reader: PairReader, channels: list[Path], label: Path) -> Pair:
    pair = reader.read(channels[0], label)
    if len(channels) == 1:
        return pair
    images = [read_image(path) for path in channels]
    first = images[0]
    if first.affine is None or any(image.native_shape != first.native_shape for image in images):
        raise UnusableCaseError(f"its {len(channels)} channels are pictures, or differ in size")
    voxels = np.concatenate([image.frame.to_file(image.array.transpose(0, 2, 3, 1)) for image in images], axis=3)
    reader.channels = {voxels.shape[3]}
    affine = first.affine
    return Pair(Made(".nii.gz", lambda path: write_volume(path, voxels, affine)), pair.label)


def _task(raw: Path, reader: PairReader) -> Task:
    """The task that nnU-Net's `dataset.json` describes, with the channels that the images have."""
    places = [path for path in files_under(raw) if path.name == TASK_FILE]
    if not places:
        return reader.task(raw.name)
    described = read_json_object(places[0])
    regions = _regions(described.get("labels"), reader.label_map)
    if not regions:
        raise DataProblem(places[0], "names no labels", "give nnU-Net's own dataset.json, with its 'labels'")
    name = described.get("name") or raw.name
    return Task.from_json({"task": str(name), "channels": max(reader.channels), "regions": regions}, places[0])


def _regions(labels: Any, label_map: LabelMap) -> dict[str, list[int]]:
    """Regions by name, from `{"gland": 1, "whole": [1, 2]}` (version 2) or `{"1": "gland"}` (version 1)."""
    regions: dict[str, list[int]] = {}
    for key, value in labels.items() if isinstance(labels, Mapping) else ():
        name, values = (str(value), [int(key)]) if isinstance(value, str) and str(key).isdigit() else (str(key), value)
        plain = re.sub(r"[^\w-]+", "-", name.strip()).strip("-")
        plain = f"{plain}-region" if plain in RESERVED_REGIONS else plain
        numbers = [number for number in (values if isinstance(values, list) else [values]) if isinstance(number, int)]
        wanted = sorted({label_map.get(number, number) for number in numbers} - {0})
        if wanted and plain.lower() not in ("background", "ignore"):
            regions[plain] = wanted
    return regions


NNUNET = importer_of_any_task(
    "nnunet",
    "imagesTr/CASE_0000.nii.gz with labelsTr/CASE.nii.gz and dataset.json",
    survey,
    "a data set in nnU-Net's raw layout",
)
