"""PROMISE12: 50 training volumes of four hospitals, as MetaImage."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from fedsuper.data.importers.base import PROSTATE, Importer, Survey
from fedsuper.data.importers.metaimage import read_metaimage
from fedsuper.data.importers.raw_files import by_stem, files_under, with_suffix
from fedsuper.data.importers.volumes import volume_entry

# The order of the training cases; see docs/reference/datasets/promise12.md for what this rests on.
HOSPITALS = {"bidmc": range(0, 13), "runmc": range(13, 26), "ucl": range(26, 38), "hk": range(38, 50)}
CASE = re.compile(r"(Case\d+)", re.IGNORECASE)
LABEL = re.compile(r"(Case\d+)_segmentation", re.IGNORECASE)


def survey(raw: Path, part: str | None) -> Survey:
    """`CaseNN.mhd` with `CaseNN_segmentation.mhd`, in one folder or in the three parts of the download."""
    found = Survey()
    files = with_suffix(files_under(raw), ".mhd", ".mha")
    labels = by_stem(files, lambda stem: _name(LABEL.fullmatch(stem)))
    for name, image in sorted(by_stem(files, lambda stem: _name(CASE.fullmatch(stem))).items()):
        if part is not None and int(name[4:]) not in HOSPITALS[part]:
            continue
        label = labels.get(name)
        if label is None:
            found.skip(name, f"no {name}_segmentation.mhd beside it (a test case has none)")
            continue
        found.entries.append(
            volume_entry(name, partial(read_metaimage, image), partial(read_metaimage, label), label.name)
        )
    numbers = {int(entry.name[4:]) for entry in found.entries}
    found.note_merged("promise12", [hospital for hospital, cases in HOSPITALS.items() if numbers & set(cases)])
    return found


def _name(match: re.Match[str] | None) -> str | None:
    return match[1].capitalize() if match else None


PROMISE12 = Importer(
    "promise12",
    PROSTATE,
    "CaseNN.mhd and CaseNN.raw with CaseNN_segmentation.mhd and .raw (TrainingData_Part1 to Part3, unpacked)",
    survey,
    tuple(HOSPITALS),
)
