"""PROMISE12: 50 training volumes of four hospitals, as MetaImage."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from fedsuper.data.importers.base import PROSTATE, Importer, Survey
from fedsuper.data.importers.readers.raw_files import files_under, with_suffix
from fedsuper.data.importers.readers.volumes import read_itk, volume_entry

# The order of the training cases; see docs/reference/datasets/promise12.md for what this rests on.
HOSPITALS = {"bidmc": range(0, 13), "runmc": range(13, 26), "ucl": range(26, 38), "hk": range(38, 50)}
CASE = re.compile(r"(case\d+)(_segmentation)?", re.IGNORECASE)


def survey(raw: Path, part: str | None) -> Survey:
    """`CaseNN.mhd` with `CaseNN_segmentation.mhd` beside it: training and test cases have the same names."""
    found = Survey()
    images: list[tuple[str, Path]] = []
    labels: dict[tuple[Path, str], Path] = {}
    for path in with_suffix(files_under(raw), ".mhd", ".mha"):
        match = CASE.fullmatch(path.stem)
        if match and match[2]:
            labels[path.parent, match[1].capitalize()] = path
        elif match:
            images.append((match[1].capitalize(), path))
    for name, image in images:
        if part is not None and int(name[4:]) not in HOSPITALS[part]:
            continue
        label = labels.get((image.parent, name))
        if label is None:
            found.skip(name, f"no {name}_segmentation.mhd beside {image.parent.name}/{image.name}")
            continue
        found.entries.append(volume_entry(name, partial(read_itk, image), partial(read_itk, label), label.name))
    numbers = {int(entry.name[4:]) for entry in found.entries}
    found.note_merged("promise12", [hospital for hospital, cases in HOSPITALS.items() if numbers & set(cases)])
    return found


PROMISE12 = Importer(
    "promise12",
    PROSTATE,
    "CaseNN.mhd and CaseNN.raw with CaseNN_segmentation.mhd and .raw (TrainingData_Part1 to Part3, unpacked)",
    survey,
    tuple(HOSPITALS),
    about="50 prostate MRI volumes of four hospitals",
)
