"""The folder layout of a data root: `ROOT/<site>/images/NAME.*` with `ROOT/<site>/labels/NAME.*`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fedsuper.data.problems import DataProblem, some_of
from fedsuper.data.text_files import read_table

IMAGE_SUFFIXES = (".nii.gz", ".nii", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".nrrd", ".mha", ".mhd", ".dcm")
LABEL_SUFFIXES = (".nii.gz", ".nii", ".png", ".tif", ".tiff", ".bmp", ".nrrd", ".mha", ".mhd")  # lossless only
VOXEL_FILES = (".raw", ".zraw")  # what lies beside a MetaImage header
CASES_FILE = "cases.csv"
RESERVED_SITES = ("global", "selector", "server", "mean", "all")  # what a model, a party or a row of results is called
SLICE_NAME = re.compile(r"#\d{4,}$")  # how samples name the slices of a volume
NUMBERED = re.compile(r"site-([1-9][0-9]{0,5})")


@dataclass(frozen=True)
class Item:
    """One image of a site, with its label where there is one; `case` is the patient it belongs to."""

    name: str
    image: Path
    label: Path | None
    case: str


@dataclass
class SiteScan:
    """What a site folder holds and everything wrong with its names; file contents are not opened."""

    items: list[Item] = field(default_factory=list)
    problems: list[DataProblem] = field(default_factory=list)
    ignored: list[Path] = field(default_factory=list)


def suffix_of(path: Path, suffixes: tuple[str, ...] = IMAGE_SUFFIXES) -> str | None:
    """The known ending of a file's name (`.nii.gz` counts as one, case does not matter), or None."""
    lower = path.name.lower()
    return next((suffix for suffix in suffixes if lower.endswith(suffix)), None)


def stem_of(path: Path) -> str:
    """The file's name without its known ending: `knee.v2.nii.gz` is `knee.v2`; a DICOM folder is its own name."""
    suffix = suffix_of(path)
    return path.name[: -len(suffix)] if suffix and not path.is_dir() else path.name


def find_sites(root: Path) -> list[str]:
    """The sites of a study: the folders of `root` that hold `images/`, sorted; raises where a name cannot be used."""
    sites = site_folders(root)
    for problem in site_name_problems(root, sites):
        raise problem
    return sites


def site_name_problems(root: Path, sites: list[str]) -> Iterator[DataProblem]:
    """Names that files, tables and messages of a study cannot tell apart, or that mean something else in them."""
    folded = Counter(site.casefold() for site in sites)
    for site in sites:
        place = Path(root) / site
        if site.casefold() in RESERVED_SITES:
            what = f"has the name {site!r}, which means something else in results"
            yield DataProblem(place, what, "rename the folder")
        elif not site.isprintable() or site != site.strip():
            fix = "rename the folder with letters, digits, - and _"
            yield DataProblem(place, f"has the unusable name {site!r}", fix)
        elif folded[site.casefold()] > 1:
            yield DataProblem(place, "differs from another site only in upper and lower case", "rename one of the two")


def site_folders(root: Path) -> list[str]:
    """The names of the folders of `root` that hold `images/`, sorted, whatever they are called."""
    root = Path(root)
    if not root.is_dir():
        state = "is not a folder" if root.exists() else "does not exist"
        raise DataProblem(root, state, "give the data root, the folder that holds dataset.json and one folder per site")
    with _listing(root):
        sites = sorted(entry.name for entry in _visible(root) if (entry / "images").is_dir())
    if not sites:
        fix = "put images in ROOT/<site>/images (see docs/how-to/bring-your-data.md)"
        if (root / "images").is_dir():
            fix = "this looks like one site's own folder: give the folder above it"
        raise DataProblem(root, "holds no site (no folder with images/ in it)", fix)
    return sites


def resolve_site(root: Path, name: str) -> Path:
    """The folder of site `name`: `ROOT/<name>`, or for `site-N` the N-th site folder in sorted order.

    The second form lets a federation that calls its clients `site-1`, `site-2`, ... run on any folder names. It is off
    where folders themselves have such names: with site-2 taken away, `site-2` must not come to mean site-3.
    """
    sites = find_sites(root)
    if name in sites:
        return Path(root) / name
    numbered = NUMBERED.fullmatch(name)
    counted = not any(NUMBERED.fullmatch(site) for site in sites)
    if numbered and counted and int(numbered[1]) <= len(sites):
        return Path(root) / sites[int(numbered[1]) - 1]
    fix = f"name one of {some_of(sites, 12)}" + (f", or site-1 to site-{len(sites)}" if counted else "")
    raise DataProblem(root, f"has no site {name!r}", fix)


def list_items(folder: Path, require_labels: bool) -> list[Item]:
    """The images of a site folder, sorted by name; raises the first of the folder's problems."""
    scan = scan_site(folder, require_labels)
    if scan.problems:
        first = scan.problems[0]
        more = len(scan.problems) - 1
        fix = f"{first.fix} ({more} more such problems: run fedsuper doctor)" if more else first.fix
        raise DataProblem(first.where, first.what, fix)
    return scan.items


def scan_site(folder: Path, require_labels: bool) -> SiteScan:
    """Pair the images of a site folder with labels and cases, and collect what is wrong with their names."""
    folder, scan = Path(folder), SiteScan()
    with _listing(folder):
        images = _by_stem(folder / "images", IMAGE_SUFFIXES, scan, "image")
        labels = _by_stem(folder / "labels", LABEL_SUFFIXES, scan, "label", needed=require_labels)
    if not images and not scan.problems:
        fix = f"put {', '.join(suffix.lstrip('.') for suffix in IMAGE_SUFFIXES)} files there"
        scan.problems.append(DataProblem(folder / "images", "holds no image", fix))
    cases = _cases(folder, sorted(images), scan)
    for name in sorted(images):
        label = labels.pop(name, None)
        if require_labels and label is None:
            expected = folder / "labels" / f"{name}.png"
            fix = f"add {expected.name} (or .nii.gz) to labels/, or remove the image"
            scan.problems.append(DataProblem(images[name], "has no label", fix))
        scan.items.append(Item(name, images[name], label, cases.get(name, name)))
    if require_labels:
        for name in sorted(labels):
            fix = f"add the image {name} to images/ (same name before the ending), or remove the label"
            scan.problems.append(DataProblem(labels[name], "is a label without an image", fix))
    return scan


@contextmanager
def _listing(folder: Path) -> Iterator[None]:
    """Turn what the operating system refuses into one line."""
    try:
        yield
    except OSError as error:
        raise DataProblem(folder, f"cannot be listed ({error.strerror})", "check its permissions") from None


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def is_dicom_file(path: Path) -> bool:
    """Whether a file belongs to a DICOM series: by its ending, or without one by the mark in its preamble."""
    if path.name.startswith(".") or path.name.upper() == "DICOMDIR" or not path.is_file():
        return False
    if path.suffix:
        return path.suffix.lower() in (".dcm", ".ima")
    with path.open("rb") as file:
        return file.read(132)[128:] == b"DICM"


def is_series(entry: Path) -> bool:
    """Whether a folder holds the files of a DICOM series."""
    return entry.is_dir() and any(map(is_dicom_file, entry.iterdir()))


def _by_stem(
    folder: Path, suffixes: tuple[str, ...], scan: SiteScan, kind: str, needed: bool = True
) -> dict[str, Path]:
    """The files of `folder` by stem; unknown endings are noted, names that collide are problems."""
    if not folder.is_dir():
        if needed:
            scan.problems.append(DataProblem(folder, "is missing", f"create it and put the {kind}s of this site there"))
        return {}
    found: dict[str, Path] = {}
    folded: dict[str, Path] = {}
    for entry in _visible(folder):
        usable = suffix_of(entry, suffixes) is not None and not entry.is_dir()
        if kind == "image" and not usable:
            usable = is_series(entry) if entry.is_dir() else is_dicom_file(entry)
        if not usable:
            lossy = kind == "label" and suffix_of(entry) in (".jpg", ".jpeg")
            if lossy:
                fix = "export the label again as PNG (converting the JPEG would keep its false values)"
                scan.problems.append(DataProblem(entry, "is a JPEG label; JPEG changes label values", fix))
            if not (entry.suffix.lower() in VOXEL_FILES and entry.with_suffix(".mhd").exists()):
                scan.ignored.append(entry)
            continue
        stem = stem_of(entry)
        twin = found.get(stem) or folded.get(stem.casefold())
        if twin:
            how = "the same name" if stem in found else "a name that differs only in upper and lower case"
            fix = "rename or remove one of the two"
            scan.problems.append(DataProblem(entry, f"and {twin.name} have {how}", fix))
        elif not stem.strip() or not stem.isprintable():
            fix = "rename it with letters, digits, - and _"
            scan.problems.append(DataProblem(entry, f"has the unusable name {entry.name!r}", fix))
        elif SLICE_NAME.search(stem):
            what = f"is named like slice {stem.rpartition('#')[2]} of a volume"
            scan.problems.append(DataProblem(entry, what, "rename it without # before the number"))
        else:
            found[stem] = folded[stem.casefold()] = entry
    return found


def _cases(folder: Path, names: list[str], scan: SiteScan) -> dict[str, str]:
    """The patient of every image by `cases.csv`; without the file every image is its own case."""
    path = folder / CASES_FILE
    if not path.exists():
        return {}
    try:
        rows = read_table(path, ("name", "case"))
    except DataProblem as problem:
        scan.problems.append(problem)
        return {}
    cases: dict[str, str] = {}

    def report(what: str, fix: str) -> None:
        scan.problems.append(DataProblem(path, what, fix))

    for row in rows:
        name, case = row["name"], row["case"]
        if not name or not case:
            report(f"the row {name!r},{case!r} lacks a name or a case", "fill it in or remove the row")
        elif cases.setdefault(name, case) != case:
            report(f"{name!r} belongs to two cases, {cases[name]!r} and {case!r}", "keep the right row")
    unknown = sorted(set(cases) - set(names))
    if unknown:
        fix = "use image names without folder and ending, or remove the rows"
        report(f"names {some_of(unknown)}, not found in images/", fix)
    absent = [name for name in names if name not in cases]
    if absent:
        report(f"does not name {some_of(absent)}", "add a row name,case for every image, so that no patient is split")
    return cases
