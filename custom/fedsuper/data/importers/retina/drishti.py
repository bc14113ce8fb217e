"""Drishti-GS1: 101 fundus photographs; disc and cup as averages of four experts' masks."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from fedsuper.data.importers.base import RETINA, Entry, Importer, Survey
from fedsuper.data.importers.readers.pictures import (
    Label,
    disc_and_cup,
    majority,
    photograph_pair,
    read_gray,
    votes_of_soft_map,
)
from fedsuper.data.importers.readers.raw_files import by_stem, files_under, with_suffix

EXPERTS = 4
IMAGE_NAME = re.compile(r"drishtiGS_\d+", re.IGNORECASE)


def read_label(disc: Path, cup: Path) -> Label:
    """Disc and cup where at least three of the four experts agree."""
    masks = (majority(votes_of_soft_map(read_gray(path), EXPERTS), EXPERTS) for path in (disc, cup))
    return disc_and_cup(*masks)


def survey(raw: Path, part: str | None) -> Survey:
    """Photographs are `drishtiGS_NNN.png`, soft maps `drishtiGS_NNN_{OD,cup}segSoftmap.png`, wherever they lie."""
    found = Survey()
    pictures = by_stem(with_suffix(files_under(raw), ".png"))
    for name, image in sorted(pictures.items()):
        if not IMAGE_NAME.fullmatch(name):
            continue
        disc, cup = pictures.get(f"{name}_ODsegSoftmap"), pictures.get(f"{name}_cupsegSoftmap")
        if disc is None or cup is None:
            missing = "disc" if disc is None else "cup"
            found.skip(name, f"no {missing} soft map ({name}/SoftMap/{name}_*segSoftmap.png)")
            continue
        found.entries.append(Entry(name, partial(photograph_pair, image, partial(read_label, disc, cup))))
    return found


DRISHTI_GS = Importer(
    "drishti-gs",
    RETINA,
    "Training/Images/**/drishtiGS_NNN.png with Training/GT/drishtiGS_NNN/SoftMap/drishtiGS_NNN_{OD,cup}segSoftmap.png"
    " (and Test/Images with Test/Test_GT)",
    survey,
    about="101 fundus photographs, four experts",
)
