"""What was run, on what and with which versions: enough to do it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from fedsuper.evaluation.run_files.records import read_counts
from fedsuper.evaluation.validation import validation_dice
from fedsuper.report.chapters import Chapter
from fedsuper.report.markup import Row, details, join, note, table
from fedsuper.report.numbers import dice, whole
from fedsuper.report.runs import Entry
from fedsuper.report.sections.base import Look, Section


def build(chapter: Chapter, look: Look) -> list[Section]:
    """Collected from the manifests and the runs' studies; there is always something to tell."""
    parts = [note(_note(chapter))]
    data, runs = _data(chapter), _runs(chapter)
    if data:
        parts.append(details("Data", data, open_=True))
    if runs:
        parts.append(details("Runs", runs))
    versions: dict[str, str] = {}
    for entry in chapter.entries:
        for manifest in entry.manifests.values():
            versions |= {str(name): str(version) for name, version in manifest.get("versions", {}).items()}
    if versions:
        pairs = join(Markup("<dt>{}</dt><dd>{}</dd>").format(*pair) for pair in versions.items())
        parts.append(details("Versions", Markup('<dl class="plain">{}</dl>').format(pairs)))
    for run in chapter.runs:
        if run.study:
            text = Markup("<pre>{}</pre>").format(_yaml(run.study))
            parts.append(details(f"Study of {run.folder.resolve().name}", text))
    return [Section("run", "What was run", "What was run", join(parts))]


def _note(chapter: Chapter) -> str:
    folders = ", ".join(run.folder.resolve().name for run in chapter.runs)
    task = chapter.task.get("task", "")
    regions = ", ".join(
        f"{name} (label {' or '.join(map(str, values))})" for name, values in chapter.task.get("regions", {}).items()
    )
    told = [f"{folders}: data set {chapter.dataset}", f"task {task}" * bool(task), f"regions {regions}" * bool(regions)]
    return ", ".join(filter(None, told)) + "."


def _data(chapter: Chapter) -> Markup | None:
    """By site and part of the split: patients and images; where volumes were cut, the slices that the nets saw."""
    columns = _counts(chapter) or {"training images": _train_counts(chapter)} | {"images scored": _scored(chapter)}
    present = {name: counts for name, counts in columns.items() if counts}
    if not present:
        return None
    rows = [Row(site, [whole(counts.get(site)) for counts in present.values()]) for site in chapter.sites]
    if len(rows) > 1:
        totals = [whole(sum(counts.get(site, 0) for site in chapter.sites)) for counts in present.values()]
        rows.append(Row("all", totals))
    return table(["Site", *present], [rows], "data")


def _counts(chapter: Chapter) -> dict[str, Mapping[str, Any]]:
    """Columns of the split as `data.json` counts it; images are left out where every one is a patient's only one."""
    counted = next((found for run in chapter.runs if (found := read_counts(run.folder))), {})
    if not counted:
        return {}
    columns: dict[str, Mapping[str, Any]] = {}
    slices = _slices(chapter)
    for part, name in (("train", "training"), ("val", "validation"), ("test", "test")):
        images = {site: parts[part]["images"] for site, parts in counted.items()}
        patients = {site: parts[part]["patients"] for site, parts in counted.items()}
        cut = {site: parts[part] for site, parts in slices.items() if site in counted}
        if patients != images:
            columns[f"{name} patients"] = patients
        volumes = bool(cut) and cut != images
        columns[f"{name} {'volumes' if volumes else 'images'}"] = images
        if volumes:
            columns[f"{name} slices"] = cut
    return columns


def _scored(chapter: Chapter) -> dict[str, Any]:
    tested: dict[str, Any] = {}
    for entry in chapter.scored:
        tested |= entry.scores.get("images", {})
    return tested


def _slices(chapter: Chapter) -> Mapping[str, Any]:
    """Samples by site and part, as nets see them, from a run that saw the sites apart (pooled training does not)."""
    return _told_apart(chapter, "parts")


def _train_counts(chapter: Chapter) -> Mapping[str, Any]:
    return _told_apart(chapter, "samples")


def _told_apart(chapter: Chapter, key: str) -> Mapping[str, Any]:
    for entry in chapter.entries:
        found: Mapping[str, Any] = entry.manifest.get("provenance", {}).get(key, {})
        if found and set(found) <= set(chapter.sites):
            return found
    return {}


def _runs(chapter: Chapter) -> Markup | None:
    """One line per method and seed; columns that no run fills are left out."""
    found = [_run_row(entry, seed, manifest) for entry in chapter.entries for seed, manifest in entry.manifests.items()]
    columns = ["Seed", "Rounds", "Validation Dice", "Predicts by", "γ", "ε (δ)", "Finished"]
    used = [index for index in range(len(columns)) if any(row.cells[index] not in ("", "–") for row in found)]
    rows = [Row(row.name, [row.cells[index] for index in used]) for row in found]
    return table(["Method", *(columns[index] for index in used)], [rows], "runs") if rows else None


def _run_row(entry: Entry, seed: int, manifest: Mapping[str, Any]) -> Row:
    metrics, provenance = manifest.get("metrics") or {}, manifest.get("provenance") or {}
    best, gamma = validation_dice(manifest), manifest.get("gamma")
    cells = [
        str(seed),
        whole(metrics.get("rounds")),
        dice(best),
        str(manifest.get("mode", "")),
        "–" if gamma is None else f"{gamma:g}",
        _epsilon(manifest.get("privacy") or {}),
        str(provenance.get("created", "")).replace("T", " ").replace("+00:00", " UTC"),
    ]
    return Row(entry.label, cells)


def _epsilon(privacy: Mapping[str, Any]) -> str:
    """The largest epsilon of a site, and what it protects; a dash for a run without noise."""
    spent = privacy.get("epsilon") or {}
    if not spent:
        return "–"
    return f"{max(spent.values()):.3g} ({privacy.get('delta', 0):g}), {privacy.get('protects', '')}"


def _yaml(study: Any) -> str:
    import yaml

    try:
        return str(yaml.safe_dump(study, sort_keys=False, default_flow_style=None, allow_unicode=True))
    except yaml.YAMLError:
        return json.dumps(study, indent=2, default=str)
