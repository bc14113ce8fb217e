"""`fedsuper doctor`: every problem of a data root named before anyone trains, with the file and the cure."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from pathlib import Path

from fedsuper.data.doctor.file_checks import FileReport, check_item
from fedsuper.data.doctor.findings import Diagnosis, Finding, SiteCount, to_json_text, to_text
from fedsuper.data.doctor.site_checks import (
    Note,
    check_channels,
    check_copies,
    check_scan,
    check_site,
    check_site_names,
    check_split,
)
from fedsuper.data.layout import Item, scan_site, site_folders
from fedsuper.data.problems import DataProblem
from fedsuper.data.task import Task, read_task
from fedsuper.display import Show, counted

WORKERS = 2
MANY_ITEMS, MANY_BYTES = 400, 32 * 2**20  # below, starting processes costs more than it gains


def main(root: Path, as_json: bool = False) -> int:
    """Print the diagnosis of `root`; 1 where something must be fixed, 0 where there are warnings at most."""
    with counted("reading", "images") as show:
        diagnosis = examine(Path(root), show)
    print(to_json_text(diagnosis) if as_json else to_text(diagnosis))
    return 1 if diagnosis.count("error") else 0


def examine(root: Path, progress: Show | None = None, workers: int = WORKERS) -> Diagnosis:
    """Check names, files, and what only shows between files; a problem of one file hides no other."""
    findings: list[Finding] = []

    def add(site: str, notes: Iterable[Note]) -> None:
        findings.extend(
            Finding(level, site, _relative(problem.where, root), problem.what, problem.fix) for level, problem in notes
        )

    try:
        sites = site_folders(root)
        task = read_task(root)
    except DataProblem as problem:
        add("", [("error", problem)])
        return Diagnosis(str(root), {}, findings)
    scans = {site: scan_site(root / site, require_labels=True) for site in sites}
    items = [item for site in sites for item in scans[site].items]
    checked = _check_items(items, task, workers, progress)
    reports = {site: list(islice(checked, len(scans[site].items))) for site in sites}
    add("", check_site_names(root, sites))
    for site in sites:
        add(site, check_scan(scans[site]))
        add(site, check_split(root / site, scans[site].items))
        add(site, (note for report in reports[site] for note in report.notes))
        add(site, check_site(root / site, reports[site], task))
    for site, note in (*check_channels(root, reports, task), *check_copies(reports)):
        add(site, [note])
    findings.sort(key=lambda finding: (finding.level, finding.site))
    counts = {site: SiteCount(len(scan.items), len({item.case for item in scan.items})) for site, scan in scans.items()}
    return Diagnosis(str(root), counts, findings)


def _check_items(items: list[Item], task: Task, workers: int, progress: Show | None) -> Iterator[FileReport]:
    """The reports of `items` in their order, from worker processes where there is enough to read."""
    done = 0
    for report in _reports(items, task, workers):
        done += 1
        if progress is not None:
            progress(done, len(items))
        yield report


def _reports(items: list[Item], task: Task, workers: int) -> Iterator[FileReport]:
    check = partial(check_item, task=task)
    done = 0
    if workers > 1 and (len(items) > MANY_ITEMS or _bytes(items) > MANY_BYTES):
        # Spawned, not forked: a fork of a process that runs threads (torch does) may never wake up.
        context = multiprocessing.get_context("spawn")
        try:
            with ProcessPoolExecutor(workers, mp_context=context) as pool:
                for report in pool.map(check, items, chunksize=8):
                    yield report
                    done += 1
        except BrokenProcessPool:  # a worker was killed, or the caller's script cannot be imported again: go on here
            pass
    yield from map(check, items[done:])


def _bytes(items: list[Item]) -> int:
    total = 0
    for item in items:
        for path in (item.image, item.label):
            if path is not None and path.is_file():
                total += path.stat().st_size
    return total


def _relative(where: str, root: Path) -> str:
    path = Path(where)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
