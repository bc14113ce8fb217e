"""REFUGE and the DoFE crops: masks in three gray levels, 255 background, 128 rim, 0 cup."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from fedsuper.data.importers.base import RETINA, Entry, Importer, Survey
from fedsuper.data.importers.readers.pictures import PICTURES, Label, from_gray_levels, photograph_pair, read_gray
from fedsuper.data.importers.readers.raw_files import by_stem, files_under, in_folder, with_suffix

REFUGE_PARTS = {"train": ("g", "n"), "validation": ("v",), "test": ("t",)}  # by the first letter of a file's name
DOMAINS = ("domain1", "domain2", "domain3", "domain4")


def read_label(mask: Path) -> Label:
    """The label in a gray-level mask."""
    return from_gray_levels(read_gray(mask), mask)


def pair_up(found: Survey, images: Iterable[Path], masks: Iterable[Path], prefix: str = "") -> None:
    """Add every image with the mask of the same name."""
    labels = by_stem(masks)
    for name, image in sorted(by_stem(images).items()):
        if name not in labels:
            found.skip(prefix + name, f"no mask {name}.bmp or .png")
            continue
        found.entries.append(Entry(prefix + name, partial(photograph_pair, image, partial(read_label, labels[name]))))


def survey_refuge(raw: Path, part: str | None) -> Survey:
    """Photographs are JPEG (g*, n*: training, V*: validation, T*: test), masks BMP or PNG of the same name."""
    found = Survey()
    letters = REFUGE_PARTS[part] if part else tuple(letter for group in REFUGE_PARTS.values() for letter in group)
    files = [path for path in files_under(raw) if _is_case(path.stem, letters)]
    masks = [*with_suffix(files, ".bmp"), *with_suffix(files, ".png")]  # the set's own masks first
    pair_up(found, with_suffix(files, ".jpg", ".jpeg"), masks)
    there = {entry.name[0].lower() for entry in found.entries}
    found.note_merged("refuge", [name for name, letters in REFUGE_PARTS.items() if there & set(letters)])
    return found


def _is_case(stem: str, letters: tuple[str, ...]) -> bool:
    return len(stem) == 5 and stem[0].lower() in letters and stem[1:].isdigit()


def survey_dofe(raw: Path, part: str | None) -> Survey:
    """`DomainK/{train,test}/ROIs/{image,mask}/*.png`; several domains get their number into the names."""
    found = Survey()
    domains: dict[str, list[Path]] = {}
    for path in with_suffix(files_under(raw), *PICTURES):
        inside = [place.lower() for place in (raw.name, *path.relative_to(raw).parts[:-1])]
        domain = next((place for place in inside if place in DOMAINS), "")
        if part in (None, domain):
            domains.setdefault(domain, []).append(path)
    for domain, files in sorted(domains.items()):
        prefix = f"{domain}-" if len(domains) > 1 else ""
        pair_up(found, in_folder(files, "image", "images"), in_folder(files, "mask", "masks"), prefix)
    found.note_merged("dofe", domains)
    return found


REFUGE = Importer(
    "refuge",
    RETINA,
    "Training400/**/{g,n}NNNN.jpg (REFUGE-Validation400/VNNNN.jpg, REFUGE-Test400/TNNNN.jpg)"
    " with Disc_Cup_Masks/**/*.bmp of the same names",
    survey_refuge,
    tuple(REFUGE_PARTS),
    about="1200 fundus photographs of two cameras",
)
DOFE = Importer(
    "dofe",
    RETINA,
    "Domain1..Domain4/{train,test}/ROIs/{image,mask}/*.png",
    survey_dofe,
    DOMAINS,
    about="fundus crops of four domains",
)
