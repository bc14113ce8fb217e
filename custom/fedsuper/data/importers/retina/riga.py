"""RIGA: BinRushed, Magrabia and MESSIDOR; six raters' contours drawn on copies of each photograph."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from fedsuper.data.images.raster import read_pixels
from fedsuper.data.importers.base import RETINA, Entry, Importer, Pair, Survey, UnusableCaseError
from fedsuper.data.importers.readers.contours import nested_regions
from fedsuper.data.importers.readers.pictures import PICTURES, disc_and_cup, keep, png, vote
from fedsuper.data.importers.readers.raw_files import by_stem, files_under, with_suffix

SOURCES = ("binrushed", "magrabia", "messidor")
RATERS = range(1, 7)
FEWEST_RATERS = 3
PHOTOGRAPH = re.compile(r"(image\d+)prime", re.IGNORECASE)


def read_pair(photograph: Path, drawings: list[Path]) -> Pair:
    """The photograph with the majority of the raters' discs and cups, of those whose lines can be told."""
    pixels = read_pixels(photograph)
    discs, cups, refused = [], [], ""
    for drawing in drawings:
        try:
            disc, cup = nested_regions(pixels, read_pixels(drawing))
        except UnusableCaseError as reason:
            refused = f"{drawing.name}: {reason}"
            continue
        discs.append(disc)
        cups.append(cup)
    if len(discs) < FEWEST_RATERS:
        raise UnusableCaseError(f"{len(discs)} of {len(drawings)} raters usable, {FEWEST_RATERS} needed ({refused})")
    return Pair(keep(photograph), png(disc_and_cup(vote(discs), vote(cups))))


def survey(raw: Path, part: str | None) -> Survey:
    """`imageNprime` is the photograph, `imageN-1` to `imageN-6` are the raters' drawings (any case, jpg or tif)."""
    found = Survey()
    folders: dict[Path, list[Path]] = {}
    for path in with_suffix(files_under(raw), *PICTURES):
        folders.setdefault(path.parent, []).append(path)
    for folder, files in sorted(folders.items()):
        if part is not None and _source_of(folder) != part:
            continue
        by_name = by_stem(files, str.lower)
        for stem, photograph in sorted(by_name.items()):
            match = PHOTOGRAPH.fullmatch(stem)
            if match is None:
                continue
            name = f"{folder.name}-{match[1]}"
            drawings = [by_name[f"{match[1]}-{rater}"] for rater in RATERS if f"{match[1]}-{rater}" in by_name]
            if len(drawings) < FEWEST_RATERS:
                found.skip(name, f"{len(drawings)} drawings ({match[1]}-1 to -6), {FEWEST_RATERS} needed")
                continue
            found.entries.append(Entry(name, partial(read_pair, photograph, drawings)))
    if part is None:
        found.note_merged("riga", {_source_of(folder) for folder in folders} & set(SOURCES))
    return found


def _source_of(folder: Path) -> str:
    """The hospital a folder belongs to, by the names above it (`MagrabiFemale` is spelled so in the set)."""
    names = [place.lower() for place in folder.parts[-3:]]
    return next((source for source in SOURCES if any(name.startswith(source[:7]) for name in names)), "")


RIGA = Importer(
    "riga",
    RETINA,
    "BinRushed/BinRushed{1-Corrected,2,3,4}, Magrabia/Magrabi{aMale,Female} or MESSIDOR,"
    " each with imageNprime.{tif,jpg} and imageN-1 to imageN-6",
    survey,
    SOURCES,
    about="fundus photographs of three hospitals, six raters",
)
