"""What the doctor checks between files: copies, spacing, channels, regions, splits, names of sites."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median, mode

from fedsuper.data.doctor.file_checks import FileReport
from fedsuper.data.doctor.findings import Level
from fedsuper.data.doctor.task_fit import unlike_the_rest
from fedsuper.data.layout import Item, SiteScan, site_name_problems
from fedsuper.data.problems import DataProblem, some_of
from fedsuper.data.splits import PARTS, SPLITS_FILE, split_problems, too_few_cases
from fedsuper.data.task import Task
from fedsuper.data.text_files import read_json_object

Note = tuple[Level, DataProblem]
SPACING_FACTOR = 2.0


def check_site_names(root: Path, sites: list[str]) -> Iterator[Note]:
    """Folders that look like sites but are none, and names that a federation cannot use."""
    for entry in sorted(root.iterdir()):
        if entry.is_dir() and not entry.name.startswith(".") and entry.name not in sites:
            what = "is not a site (it has no folder images/, in lower case)"
            yield "warning", DataProblem(entry, what, "put its images in images/, or move the folder away")
    problems = list(site_name_problems(root, sites))
    yield from (("error", problem) for problem in problems)
    named = {problem.where for problem in problems}
    for site in sites:
        odd = DataProblem(
            root / site, "has a name that a federation's site cannot have", "rename it with letters, digits, - and _"
        )
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", site) and odd.where not in named:
            yield "warning", odd


def check_scan(scan: SiteScan) -> Iterator[Note]:
    """What is wrong with the names in a site's folders."""
    for problem in scan.problems:
        yield "error", problem
    reported = {problem.where for problem in scan.problems}
    for path in scan.ignored:
        if str(path) not in reported:
            fix = "convert it to png, tif, bmp, nii or nii.gz, or move it away"
            yield "warning", DataProblem(path, "is not used: its ending is not known", fix)


def check_split(folder: Path, items: list[Item]) -> Iterator[Note]:
    """The site's own `splits.json`, or whether there are enough cases for a seeded split."""
    path = folder / SPLITS_FILE
    if not path.exists():
        few = too_few_cases(folder, items)
        if few and items:
            yield "error", few
        return
    try:
        parts = read_json_object(path)
    except DataProblem as problem:
        yield "error", problem
        return
    problems = split_problems(path, parts, items)
    yield from (("error", problem) for problem in problems)
    if problems:
        return
    empty = [part for part in PARTS if not parts[part]]
    if empty:
        yield "warning", DataProblem(path, f"has no image in {', '.join(empty)}", "right only if that part is not used")
    named = {name for part in PARTS for name in parts[part]}
    unused = sorted(item.name for item in items if item.name not in named)
    if unused:
        yield "warning", DataProblem(path, f"leaves out {some_of(unused)}", "right only if they are not to be used")


def check_site(folder: Path, reports: list[FileReport], task: Task) -> Iterator[Note]:
    """Channels, spacing and regions over the images of one site."""
    by_channels: dict[int, list[FileReport]] = defaultdict(list)
    for report in reports:
        if report.channels is not None:
            by_channels[report.channels].append(report)
    if len(by_channels) > 1:
        rare = min(by_channels, key=lambda channels: len(by_channels[channels]))
        names = some_of([report.item.name for report in by_channels[rare]])
        what = f"mixes images of {' and '.join(map(str, sorted(by_channels)))} channels ({rare}: {names})"
        yield "warning", DataProblem(folder / "images", what, "convert them to one kind, or check where they come from")
    yield from _spacing_outliers(reports)
    shown = [report.shown for report in reports if report.shown is not None]
    missing = [name for index, name in enumerate(task.regions) if shown and not any(one[index] for one in shown)]
    if missing:
        level: Level = "error" if len(missing) == len(task.regions) else "warning"
        what = f"show the region {some_of(missing)} nowhere"
        yield level, DataProblem(folder / "labels", what, "check the label values against dataset.json")


def check_channels(root: Path, reports: dict[str, list[FileReport]], task: Task) -> Iterator[tuple[str, Note]]:
    """Sites whose images have other channels than those of the rest, which would stop the study; each with its site."""
    found = {
        site: [report.channels for report in of_site if report.channels is not None]
        for site, of_site in reports.items()
    }
    usual, unlike = unlike_the_rest({site: mode(channels) for site, channels in found.items() if channels}, task)
    for site in unlike:
        what = f"hold {mode(found[site])} channel(s), those of the other sites {usual}"
        fix = f"save them with {usual} channel(s), or keep the site out of the study"
        yield site, ("error", DataProblem(root / site / "images", what, fix))


def check_copies(reports: dict[str, list[FileReport]]) -> Iterator[tuple[str, Note]]:
    """The same pixels under two names, within a site or across sites; each with the site of the second one."""
    first: dict[str, tuple[str, FileReport]] = {}
    for site, of_site in reports.items():
        for report in of_site:
            if report.digest is None:
                continue
            if report.digest not in first:
                first[report.digest] = (site, report)
                continue
            home, original = first[report.digest]
            same_case = home == site and original.item.case == report.item.case
            where = original.item.image.name if home == site else f"{home}/images/{original.item.image.name}"
            fix = "remove one of the two" if home == site else "keep it at one site: it could be trained on and tested"
            if home == site and not same_case:
                fix = "remove one of the two, or give both one case in cases.csv"
            level: Level = "warning" if same_case else "error"
            yield site, (level, DataProblem(report.item.image, f"has the same pixels as {where}", fix))


def _spacing_outliers(reports: list[FileReport]) -> Iterator[Note]:
    known = [(report.item.image, report.spacing) for report in reports if report.spacing is not None]
    if len(known) < 3:  # of two, neither is the outlier
        return
    usual = tuple(median(spacing[axis] for _, spacing in known) for axis in range(3))
    for path, spacing in known:
        ratio = max(max(a / b, b / a) for a, b in zip(spacing, usual, strict=True))
        if ratio > SPACING_FACTOR:
            own, site = (" x ".join(f"{side:.3g}" for side in sides) for sides in (spacing, usual))
            what = f"has the spacing {own} mm, the site's median is {site} mm"
            yield "warning", DataProblem(path, what, "check its header, and that it is the same kind of scan")
