"""What a site may say of its data before round 0: aggregates only, enough to see that it does not fit the study.

Every number is a mean or a standard deviation over at least `MIN_CASES` patients, or left out. Nothing is the value of
a single patient, and no name leaves the site.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mode
from typing import Any

import numpy as np

from fedsuper.data.doctor.task_fit import unlike_the_rest
from fedsuper.data.layout import Item
from fedsuper.data.problems import DataProblem
from fedsuper.data.survey import QUANTILES, Survey
from fedsuper.data.task import Task

MIN_CASES = 5
ENDS = 65536  # bytes of a file's beginning, and of its end, that the digest reads
MAX_ITEMS = 200  # files that are opened; more would not change a mean that matters


def fingerprint(folder: Path, task: Task, items: list[Item], survey: Survey | None = None) -> dict[str, Any]:
    """The fingerprint of a site's `items`; raises the first problem of a file, as training would.

    What `survey` has read is not read again, and what is read here it keeps.
    """
    survey = survey or Survey(task)
    if not items:
        raise DataProblem(folder, "has no images", "put them in images/ (see docs/how-to/bring-your-data.md)")
    chosen = items[:: -(-len(items) // MAX_ITEMS)]
    rows = [survey.facts(item) for item in chosen]
    cases = len({item.case for item in items})
    enough = len({item.case for item in chosen}) >= MIN_CASES
    summary: dict[str, Any] = {
        "task": task.to_json(),
        "channels": mode(row.channels for row in rows),
        "cases": cases if enough else None,
        "images": len(items) if enough else None,
        "size": None,
        "spacing": None,
        "intensity": None,
        "regions": {name: None for name in task.regions},
    }
    if not enough:
        return summary
    summary["size"] = _spread([row.size for row in rows], ("slices", "height", "width"))
    if all(row.spacing for row in rows):
        summary["spacing"] = _spread([row.spacing for row in rows], ("slices", "height", "width"))
    summary["intensity"] = _spread([row.quantiles for row in rows], [f"q{100 * q:g}" for q in QUANTILES])
    for index, name in enumerate(task.regions):
        areas = [row.areas[index] for row in rows if row.areas is not None]
        showing = {item.case for item, row in zip(chosen, rows, strict=True) if row.areas and row.areas[index]}
        if len(showing) >= MIN_CASES:
            summary["regions"][name] = _spread([[area] for area in areas], ("area",))
    return summary


def content_digest(items: Iterable[Item]) -> str:
    """A digest of all images and labels, to tell whether a run goes on with the data it began with.

    Of each file its size, its beginning and its end: every format we read ends in pixels or in a checksum over them.
    """
    sha = hashlib.sha256()
    for item in sorted(items, key=lambda item: (item.name, str(item.image))):
        for path in (item.image, item.label):
            if path is not None and path.is_file():
                with open(path, "rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    head = file.read(ENDS)
                    file.seek(max(len(head), size - ENDS))
                    sha.update(f"{item.name}|{size}|".encode() + head + file.read(ENDS))
    return sha.hexdigest()[:32]


def compare_fingerprints(prints: Mapping[str, Mapping[str, Any]], task: Task) -> list[str]:
    """One line for every site that does not fit the study, each starting with the site's name; empty if all fit.

    A site whose folder is broken sends `{"error": text}` in place of a fingerprint.
    """
    problems = []
    channels = {site: one["channels"] for site, one in prints.items() if "error" not in one}
    usual, unlike = unlike_the_rest(channels, task)
    for site in sorted(prints):
        one = prints[site]
        if "error" in one:
            problems.append(f"{site}: {one['error']}")
            continue
        theirs = one["task"]
        for key, ours in task.to_json().items():
            if theirs.get(key) != ours:
                what = f"{site}: dataset.json says {key} {theirs.get(key)}, the study expects {ours}"
                problems.append(f"{what}; use the study's dataset.json and labels")
        if site in unlike:
            what = f"{site}: its images have {one['channels']} channel(s), those of the other sites {usual}"
            problems.append(f"{what}; convert them, or keep the site out of this study")
    return problems


def describe_fingerprints(prints: Mapping[str, Mapping[str, Any]]) -> str:
    """The fingerprints as a table, one line a site; a dash is what a site may not or cannot say."""
    regions = list(dict.fromkeys(name for one in prints.values() for name in one.get("regions", {})))
    rows = [["site", "cases", "images", "channels", "height", "width", "median", *(f"{name} area" for name in regions)]]
    for site in sorted(prints):
        one = prints[site]
        if "error" in one:
            rows.append([site, "broken"])
            continue
        size, intensity = one["size"] or {}, one["intensity"] or {}
        cells: list[Any] = [one["cases"], one["images"], one["channels"]]
        cells += [_mean(size.get("height")), _mean(size.get("width")), _mean(intensity.get("q50"))]
        cells += [_mean((one["regions"].get(name) or {}).get("area")) for name in regions]
        rows.append([site, *("-" if cell is None else str(cell) for cell in cells)])
    widths = [max(len(row[place]) for row in rows if place < len(row)) for place in range(len(rows[0]))]
    lines = [[f"{row[0]:<{widths[0]}}", *(f"{cell:>{w}}" for cell, w in zip(row[1:], widths[1:], strict=False))]
             for row in rows]
    return "\n".join("  ".join(line) for line in lines)


def _spread(rows: list[Any], names: Any) -> dict[str, dict[str, float]]:
    table = np.array(rows, dtype=np.float64)
    return {
        name: {"mean": round(float(table[:, i].mean()), 4), "sd": round(float(table[:, i].std()), 4)}
        for i, name in enumerate(names)
    }


def _mean(spread: Mapping[str, float] | None) -> str | None:
    return None if spread is None else f"{spread['mean']:.4g}"
