"""What was run, on what and with which versions: enough to do it again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedsuper.report.chapters import Chapter
from fedsuper.report.reading import Entry


@dataclass(frozen=True)
class DataRow:
    """A site's numbers of images."""

    name: str
    values: list[str]


@dataclass(frozen=True)
class DataTable:
    """Images by site and part of the split."""

    columns: list[str]
    rows: list[DataRow]


@dataclass(frozen=True)
class RunTable:
    """One line per method and seed."""

    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Provenance:
    """Everything behind "What was run": named lists of pairs and texts."""

    note: str
    data: DataTable | None
    runs: RunTable | None
    lists: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)


def provenance_of(chapter: Chapter) -> Provenance:
    """Collected from the manifests and the runs' settings."""
    versions: dict[str, str] = {}
    for entry in chapter.entries:
        for manifest in entry.manifests.values():
            versions |= {str(name): str(version) for name, version in manifest.get("versions", {}).items()}
    lists = [("Versions", list(versions.items()))] if versions else []
    texts = [
        (f"Study of {run.folder.resolve().name}", _yaml(run.settings["study"]))
        for run in chapter.runs
        if run.settings.get("study")
    ]
    folders = ", ".join(run.folder.resolve().name for run in chapter.runs)
    task = chapter.task.get("task", "")
    regions = ", ".join(
        f"{name} (label {' or '.join(map(str, values))})" for name, values in chapter.task.get("regions", {}).items()
    )
    note = (
        f"{folders}: data set {chapter.dataset}"
        + (f", task {task}" if task else "")
        + (f", regions {regions}." if regions else ".")
    )
    return Provenance(note, _data(chapter), _runs(chapter), lists, texts)


def _data(chapter: Chapter) -> DataTable | None:
    trained = _train_counts(chapter)
    tested: dict[str, Any] = {}
    for entry in chapter.scored:
        tested |= entry.scores.get("images", {})
    columns = {"training images": trained, "images scored": tested}
    present = {name: counts for name, counts in columns.items() if counts}
    if not present:
        return None
    rows = [DataRow(site, [_whole(counts.get(site)) for counts in present.values()]) for site in chapter.sites]
    if len(rows) > 1:
        rows.append(
            DataRow("all", [_whole(sum(counts.get(site, 0) for site in chapter.sites)) for counts in present.values()])
        )
    return DataTable(list(present), rows)


def _train_counts(chapter: Chapter) -> Mapping[str, Any]:
    """Training samples by site, from a run that saw the sites apart (pooled training does not)."""
    for entry in chapter.entries:
        samples = entry.manifest.get("provenance", {}).get("samples", {})
        if samples and set(samples) <= set(chapter.sites):
            return samples
    return {}


def _runs(chapter: Chapter) -> RunTable | None:
    rows = [_run_row(entry, seed, manifest) for entry in chapter.entries for seed, manifest in entry.manifests.items()]
    columns = ["Method", "Seed", "Rounds", "Best validation Dice", "Predicts by", "γ", "Took", "Finished"]
    if not rows:
        return None
    used = [index for index in range(len(columns)) if any(row[index] not in ("", "–") for row in rows)]
    return RunTable([columns[index] for index in used], [[row[index] for index in used] for row in rows])


def _run_row(entry: Entry, seed: int, manifest: Mapping[str, Any]) -> list[str]:
    metrics, provenance = manifest.get("metrics") or {}, manifest.get("provenance") or {}
    best = _best_by_role(metrics.get("validation") or {})
    gamma = manifest.get("gamma")
    seconds = provenance.get("seconds")
    return [
        entry.label,
        str(seed),
        _whole(metrics.get("rounds")),
        f"{max(best.values()):.3f}" if best else "–",
        str(manifest.get("mode", "")),
        "–" if gamma is None else f"{gamma:g}",
        "–" if seconds is None else duration(float(seconds)),
        str(provenance.get("created", "")).replace("T", " ").replace("+00:00", " UTC"),
    ]


def _best_by_role(validation: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Validation Dice of what was handed over: one score for a shared model, the mean over sites for personal ones."""
    collected: dict[str, list[float]] = {}
    for key, value in validation.items():
        collected.setdefault(key.partition("/")[0], []).append(value["score"])
    return {role: math.fsum(scores) / len(scores) for role, scores in collected.items() if role != "selector"}


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def _whole(value: Any) -> str:
    return "–" if value is None else f"{value:.0f}"


def _yaml(study: Any) -> str:
    import yaml

    try:
        return yaml.safe_dump(study, sort_keys=False, default_flow_style=None, allow_unicode=True)
    except yaml.YAMLError:
        return json.dumps(study, indent=2, default=str)
