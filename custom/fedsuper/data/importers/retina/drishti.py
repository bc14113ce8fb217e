"""Drishti-GS1: 101 fundus photographs; disc and cup as averages of four experts' masks."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from fedsuper.data.importers.base import RETINA, Importer, Pair, Survey
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


def read_pair(image: Path, disc: Path, cup: Path) -> Pair:
    """A photograph and its label."""
    return photograph_pair(image, partial(read_label, disc, cup))


def survey(raw: Path, part: str | None) -> Survey:
    """Photographs are `drishtiGS_NNN.png`, soft maps `drishtiGS_NNN_{OD,cup}segSoftmap.png`, wherever they lie."""
    found = Survey()
    pictures = by_stem(with_suffix(files_under(raw), ".png"))
    for name, image in sorted(pictures.items()):
        if not IMAGE_NAME.fullmatch(name):
            continue
        masks = {
            f"no {part} soft map ({name}/SoftMap/{name}_*segSoftmap.png)": pictures.get(f"{name}_{mark}segSoftmap")
            for part, mark in (("disc", "OD"), ("cup", "cup"))
        }
        found.add(name, partial(read_pair, image), masks)
    return found


DRISHTI_GS = Importer(
    "drishti-gs",
    RETINA,
    "Training/Images/**/drishtiGS_NNN.png with Training/GT/drishtiGS_NNN/SoftMap/drishtiGS_NNN_{OD,cup}segSoftmap.png"
    " (and Test/Images with Test/Test_GT)",
    survey,
    about="101 fundus photographs, four experts",
)
