"""Running an import: everything is read and converted beside the site folder first, then moved in."""

from __future__ import annotations

import csv
import filecmp
import io
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from fedsuper.data.draft_folder import draft_beside
from fedsuper.data.importers.base import Entry, Importer, ImportResult, Kept, Made, Skipped, Survey, UnusableCaseError
from fedsuper.data.importers.readers.raw_files import what_is_in
from fedsuper.data.layout import CASES_FILE, scan_site
from fedsuper.data.problems import some_of
from fedsuper.data.task import TASK_FILE, Task, read_task
from fedsuper.data.text_files import read_table
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write, atomic_write_json, atomic_write_text

Mode = Literal["copy", "link"]


def run_import(
    importer: Importer,
    part: str | None,
    raw: Path,
    out: Path,
    mode: Mode,
    progress: Callable[[int, int], None] | None,
) -> ImportResult:
    """Import `raw` into the site folder `out`; an error leaves `out` as it was."""
    _check_folders(importer, raw, out, mode)
    survey = importer.survey(raw, part)
    _check_names(importer, raw, survey)
    _check_task(importer, out.parent)
    has_task = (out.parent / TASK_FILE).exists()
    with draft_beside(out) as draft:
        taken, skipped = _fill(draft, survey.entries, mode, progress)
        skipped = [*survey.skipped, *skipped]
        if not taken:
            raise FedSuperError(_nothing_usable(importer, raw, skipped))
        task = _checked_values(importer, survey, read_task(out.parent)) if has_task else _task_of(importer, survey)
        cases, is_new = _merged_cases(out, taken), not out.exists()
        if cases is not None and is_new:  # it comes with the folder, in one step
            atomic_write_text(draft / CASES_FILE, cases)
        written, unchanged = _move_in(draft, out)
        if cases is not None and not is_new:
            atomic_write_text(out / CASES_FILE, cases)
    if task is not None and not has_task:
        atomic_write_json(out.parent / TASK_FILE, task.to_json())
        if importer.task is None:
            survey.notes.append(f"{out.parent / TASK_FILE} was made: {_told(task)}; name its regions as you like")
    return ImportResult(out, len(taken), written, unchanged, tuple(skipped), tuple(survey.notes))


def _check_folders(importer: Importer, raw: Path, out: Path, mode: Mode) -> None:
    if mode not in get_args(Mode):
        raise FedSuperError(f"import: the mode is 'copy' or 'link', not {mode!r}")
    if not raw.is_dir():
        state = "is a file: unpack it first and give the folder" if raw.exists() else "does not exist"
        raise FedSuperError(f"import {importer.source}: {raw} {state}; expected {importer.expects}")
    inside, outside = out.resolve(), raw.resolve()
    if inside == outside or outside in inside.parents:
        raise FedSuperError(f"import {importer.source}: --out {out} lies inside the raw folder; choose another place")
    if out.exists() and not out.is_dir():
        raise FedSuperError(f"import {importer.source}: --out {out} is a file; give the folder of a site, ROOT/<site>")


def _check_names(importer: Importer, raw: Path, survey: Survey) -> None:
    if not survey.entries:
        raise FedSuperError(_nothing_usable(importer, raw, survey.skipped))
    names = [entry.name for entry in survey.entries]
    folded = [name.casefold() for name in names]
    twins = sorted({name for name, low in zip(names, folded, strict=True) if folded.count(low) > 1})
    if twins:
        raise FedSuperError(
            f"import {importer.source}: {raw} holds {some_of(twins)} more than once; give the folder of one copy"
        )


def _nothing_usable(importer: Importer, raw: Path, skipped: list[Skipped]) -> str:
    found = what_is_in(raw)
    if skipped:
        found = f"{len(skipped)} cases, none usable ({skipped[0].name}: {skipped[0].reason})"
    return f"import {importer.source}: {raw} is not this set: expected {importer.expects}; found {found}"


def _check_task(importer: Importer, root: Path) -> None:
    """A data root has one task: another one in its `dataset.json` is an error before anything is read."""
    path = root / TASK_FILE
    if not path.exists():
        return
    there = read_task(root)
    if importer.task is not None and there != importer.task:
        raise FedSuperError(
            f"import {importer.source}: {path} holds the task {_told(there)}, this set is {_told(importer.task)};"
            " import it into another ROOT"
        )


def _task_of(importer: Importer, survey: Survey) -> Task | None:
    if importer.task is not None or survey.task is None:
        return importer.task
    try:
        return survey.task()
    except UnusableCaseError as reason:
        raise FedSuperError(f"import {importer.source}: {reason}") from None


def _checked_values(importer: Importer, survey: Survey, task: Task) -> Task:
    """The task, if it knows every label value that was read."""
    strange = sorted(survey.values - {0, *task.label_values})
    if strange:
        held, known = some_of([str(value) for value in strange], 6), ", ".join(map(str, task.label_values))
        raise FedSuperError(
            f"import {importer.source}: the masks hold {held}, the task knows 0 and {known};"
            f" say what they mean, for example --map {strange[0]}={task.label_values[0]}"
        )
    return task


def _told(task: Task) -> str:
    regions = ", ".join(f"{name} {list(values)}" for name, values in task.regions.items())
    return f"{task.name} ({task.channels} channels; {regions})"


def _fill(
    draft: Path, entries: list[Entry], mode: Mode, progress: Callable[[int, int], None] | None
) -> tuple[list[Entry], list[Skipped]]:
    """Put every usable pair into `draft`; torn files stop the import, unusable pairs are listed."""
    taken: list[Entry] = []
    skipped: list[Skipped] = []
    for number, entry in enumerate(entries, start=1):
        try:
            pair = entry.read()
        except UnusableCaseError as reason:
            skipped.append(Skipped(entry.name, str(reason)))
        else:
            _place(pair.image, draft / "images", entry.name, mode)
            _place(pair.label, draft / "labels", entry.name, mode)
            taken.append(entry)
        if progress is not None:
            progress(number, len(entries))
    return taken, skipped


def _place(content: Kept | Made, folder: Path, name: str, mode: Mode) -> None:
    folder.mkdir(exist_ok=True)
    target = folder / (name + content.suffix)
    if isinstance(content, Made):
        atomic_write(target, content.write)
    elif mode == "link":
        _link(content.path, target)
    else:
        atomic_write(target, partial(_copy, content.path))


def _copy(original: Path, target: Path) -> None:
    shutil.copyfile(original, target)


def _link(original: Path, target: Path) -> None:
    """A hard link, or a symbolic one where the file systems differ: hard links stay valid when RAW is tidied away."""
    try:
        os.link(original.resolve(), target)
    except OSError:
        target.symlink_to(original.resolve())


def _move_in(draft: Path, out: Path) -> tuple[int, int]:
    """Move the draft's files into `out`. Equal files stay untouched; a differing one stops it before any is moved."""
    moves: list[tuple[Path, Path]] = []
    unchanged = 0
    differing: list[str] = []
    for fresh in sorted(draft.glob("*/*")):
        target = out / fresh.relative_to(draft)
        if not os.path.lexists(target):
            moves.append((fresh, target))
        elif target.is_file() and filecmp.cmp(fresh, target, shallow=False):
            unchanged += 1
        else:
            differing.append(target.name)
    if differing:
        raise FedSuperError(
            f"import: {out} already holds {some_of(differing)} with other content; import into a new site folder,"
            " or remove the old files first"
        )
    if not out.exists():
        os.replace(draft, out)
        return len(moves), unchanged
    for fresh, target in reversed(moves):  # labels before images: a case is there once its image is
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(fresh, target)
    return len(moves), unchanged


def _merged_cases(out: Path, taken: list[Entry]) -> str | None:
    """The new text of `cases.csv`, which names every image of a site or is not there; None where nothing changes."""
    path = out / CASES_FILE
    if not path.exists() and all(entry.case is None for entry in taken):
        return None
    known = {row["name"]: row["case"] for row in read_table(path, ("name", "case"))} if path.exists() else {}
    for entry in taken:
        case = entry.case or entry.name
        if known.setdefault(entry.name, case) != case:
            raise FedSuperError(
                f"import: {path} gives {entry.name} to case {known[entry.name]!r}, the set to {case!r}; correct the row"
            )
    there = scan_site(out, require_labels=False).items if (out / "images").is_dir() else []
    for item in there:  # not what else lies there, such as .DS_Store
        known.setdefault(item.name, item.name)
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([("name", "case"), *sorted(known.items())])
    return None if path.exists() and path.read_text(encoding="utf-8") == text.getvalue() else text.getvalue()
