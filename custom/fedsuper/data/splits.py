"""Train, validation and test by patient: seeded and reproducible, or fixed by the site's `splits.json`."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedsuper.data.layout import Item, list_items
from fedsuper.data.problems import DataProblem, some_of
from fedsuper.data.survey import Survey
from fedsuper.data.task import Task
from fedsuper.data.text_files import read_json_object

PARTS = ("train", "val", "test")
SPLITS_FILE = "splits.json"
RATIOS = {"fedsm": (0.5, 0.25, 0.25), "iop-fl": (0.64, 0.16, 0.20)}

Presence = Callable[[Item], tuple[bool, ...]]
Split = dict[str, list[Item]]


def split_items(
    folder: Path,
    items: list[Item],
    ratios: tuple[float, float, float],
    seed: int,
    presence: Presence | None = None,
) -> Split:
    """The items of `train`, `val` and `test`; `splits.json` in `folder` wins, otherwise a seeded split by case.

    Cases are ordered by `sha256(seed, case)`, so the split depends on nothing but the seed and the set of cases: not on
    the file system, the platform or a library's random stream. `presence` gives what of the task an item shows
    (`Survey.presence`); cases that show the same are dealt out evenly, so that a rare region reaches every part.
    """
    path = Path(folder) / SPLITS_FILE
    if path.exists():
        parts = read_json_object(path)
        problems = split_problems(path, parts, items)
        if problems:
            raise problems[0]
        by_name = {item.name: item for item in items}
        return {part: [by_name[name] for name in sorted(parts[part])] for part in PARTS}
    return _seeded_split(Path(folder), items, ratios, seed, presence)


def split_problems(path: Path, parts: Mapping[str, Any], items: list[Item]) -> list[DataProblem]:
    """Everything wrong with a `splits.json`: unknown names, names or patients in two parts, a faulty shape."""
    fix = 'write {"train": [...], "val": [...], "test": [...]} with image names without their ending'
    faulty = [part for part in PARTS if not isinstance(parts.get(part), list)]
    if faulty or set(parts) != set(PARTS) or not all(isinstance(n, str) for part in PARTS for n in parts[part]):
        return [DataProblem(path, "must hold exactly the lists train, val and test", fix)]
    problems = []
    case_of = {item.name: item.case for item in items}
    home: dict[str, str] = {}
    parts_of_case: dict[str, set[str]] = defaultdict(set)
    for part in PARTS:
        unknown = sorted({name for name in parts[part] if name not in case_of})
        if unknown:
            problems.append(DataProblem(path, f"{part!r} names {some_of(unknown)}, not found in images/", fix))
        for name in parts[part]:
            if name in home:
                where = f"twice in {part!r}" if home[name] == part else f"in {home[name]!r} and in {part!r}"
                problems.append(DataProblem(path, f"{name!r} is {where}", "name every image once"))
            home[name] = part
            if name in case_of:
                parts_of_case[case_of[name]].add(part)
    for case in sorted(case for case, found in parts_of_case.items() if len(found) > 1):
        where = " and ".join(part for part in PARTS if part in parts_of_case[case])
        fix = "keep all images of a patient in one part, or correct cases.csv"
        problems.append(DataProblem(path, f"the case {case!r} is in {where}", fix))
    if not any(parts[part] for part in PARTS):
        problems.append(DataProblem(path, "names no image at all", fix))
    return problems


def too_few_cases(folder: Path, items: list[Item]) -> DataProblem | None:
    """The problem of a site that cannot fill all three parts, or None."""
    count = len({item.case for item in items})
    if count >= len(PARTS):
        return None
    what = f"has {count} case(s), at least {len(PARTS)} are needed for train, val and test"
    return DataProblem(folder, what, "add patients, or fix the split in splits.json")


def split_folder(
    folder: Path, task: Task, ratios: tuple[float, float, float], seed: int, survey: Survey | None = None
) -> Split:
    """The split that a run of a study makes of a site's folder: labeled items, balanced by region."""
    items = list_items(folder, require_labels=True)
    return split_items(folder, items, ratios, seed, (survey or Survey(task)).presence)


def part_sizes(count: int, ratios: tuple[float, float, float]) -> tuple[int, ...]:
    """How many of `count` >= 3 cases each part gets: largest remainders, and at least one case each."""
    shares = [count * ratio / sum(ratios) for ratio in ratios]
    sizes = [int(share) for share in shares]
    by_remainder = sorted(range(3), key=lambda i: (sizes[i] - shares[i], i))
    for i in by_remainder[: count - sum(sizes)]:
        sizes[i] += 1
    for i in range(3):
        if sizes[i] == 0:
            sizes[sizes.index(max(sizes))] -= 1
            sizes[i] = 1
    return tuple(sizes)


def _seeded_split(
    folder: Path, items: list[Item], ratios: tuple[float, float, float], seed: int, presence: Presence | None
) -> Split:
    if len(ratios) != 3 or any(not ratio > 0 for ratio in ratios):
        raise DataProblem(folder, f"split ratios {ratios!r} must be three positive numbers", f"use {RATIOS['fedsm']}")
    by_case: dict[str, list[Item]] = defaultdict(list)
    for item in sorted(items, key=lambda item: item.name):
        by_case[item.case].append(item)
    few = too_few_cases(folder, items)
    if few:
        raise few
    count = len(by_case)
    strata = {case: _stratum(by_case[case], presence) for case in by_case}
    order = sorted(by_case, key=lambda case: (strata[case], hashlib.sha256(f"{seed}:{case}".encode()).digest()))
    sizes = part_sizes(count, ratios)
    split: Split = {part: [] for part in PARTS}
    dealt = [0, 0, 0]
    for position, case in enumerate(order, start=1):
        # Deal each case to the part that is furthest behind its share so far: every stretch of the order, hence every
        # stratum, is divided in about the same proportions, and the totals come out exactly at `sizes`.
        open_parts = [i for i in range(3) if dealt[i] < sizes[i]]
        chosen = max(open_parts, key=lambda i: (sizes[i] * position / count - dealt[i], -i))
        dealt[chosen] += 1
        split[PARTS[chosen]].extend(by_case[case])
    return {part: sorted(split[part], key=lambda item: item.name) for part in PARTS}


def _stratum(items: list[Item], presence: Presence | None) -> tuple[bool, ...]:
    """What a case shows: a region counts as present where any of the case's images shows it."""
    return () if presence is None else tuple(any(shown) for shown in zip(*map(presence, items), strict=True))
