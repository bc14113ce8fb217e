"""The records of a run: its scores, its study, and the manifests of its super models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsuper.errors import FedSuperError
from fedsuper.evaluation.run_files.names import (
    COMPARE,
    DATA,
    INSIDE,
    INVERSION,
    INVERSION_INDEX,
    LOSS_SURFACE,
    METRICS,
    OUTSIDE,
    ROUTING,
    RUNS,
    STUDY,
    SUPER_MODEL,
    SWEEP,
)
from fedsuper.files import read_json
from fedsuper.inference.supermodel_manifest import MANIFEST, read_manifest

AGAIN = "write it again with the run that made it"
Manifests = dict[str, dict[int, dict[str, Any]]]  # by method (of a comparison: by row) and seed


def read_metrics(run: Path) -> dict[str, Any]:
    """`metrics.json`, its methods checked; empty where the run was not scored."""
    path = Path(run) / METRICS
    metrics = read_json(path, AGAIN) if path.exists() else {}
    methods = metrics.get("methods", {})
    if not isinstance(methods, dict) or not all(_is_score(value) for value in methods.values()):
        raise FedSuperError(f"{path}: 'methods' does not map methods to scores; {AGAIN}")
    return metrics


def read_comparison(run: Path) -> dict[str, Any]:
    """`compare.json`: the rows, seeds and study of a finished comparison; empty for a single run."""
    return _where_it_is(run, COMPARE)


def read_sweep(run: Path) -> dict[str, Any]:
    """`sweep.json`: grid, every cell's validation Dice, choice and budget; empty where nothing was tuned."""
    return _where_it_is(run, SWEEP)


def read_outside(run: Path) -> dict[str, Any]:
    """`outside.json`: a hospital outside the federation in every mode (`modes`); empty where none was scored."""
    return _where_it_is(run, OUTSIDE)


def read_loss_surface(run: Path) -> dict[str, Any]:
    """`loss_surface.json`: `site`, `distances` and `losses` by method; empty where it was not asked for."""
    return _where_it_is(run, LOSS_SURFACE)


def read_routing(run: Path) -> dict[str, Any]:
    """`routing.json`: by row and site left out, how routing was tuned there; empty where it was not asked for."""
    return _where_it_is(run, ROUTING)


def read_inside(run: Path) -> dict[str, Any]:
    """`inside.json`: by site left out, row and number of inside sites, the Dice; empty where it was not asked for."""
    return _where_it_is(run, INSIDE)


def read_counts(run: Path) -> dict[str, Any]:
    """`data.json`: by site and part of its split, patients and images; empty of an earlier version."""
    return _where_it_is(run, DATA)


def read_inversion(run: Path) -> dict[str, Any]:
    """`inversion/index.json`: the image that was attacked and what was seen of it; empty where it was not asked for."""
    return _where_it_is(Path(run) / INVERSION, INVERSION_INDEX)


def read_study_file(run: Path) -> dict[str, Any]:
    """The study of a single run as it was written; empty where there is none."""
    from fedsuper.config.yaml_files import read_yaml

    path = Path(run) / STUDY
    if not path.exists():
        return {}
    try:
        value = read_yaml(path, "the study")
    except FedSuperError as error:
        raise FedSuperError(f"{path}: is torn ({str(error).removeprefix(f'{path}: ')[:120]}); write it again") from None
    return value if isinstance(value, dict) else {}


def read_manifests(run: Path) -> Manifests:
    """The manifests of all super models of a run, or of the rows and seeds its comparison names (of all, while it has
    not ended yet). A row is known by its folder: `fedsm` and `fedsm+personal=ft` are the same method."""
    run = Path(run)
    if not (run / RUNS).is_dir():
        if not (run / SUPER_MODEL / MANIFEST).exists():
            return {}
        manifest = _manifest(run / SUPER_MODEL)
        return {manifest["method"]: {_seed(manifest): manifest}}
    comparison = read_comparison(run)
    rows, seeds = comparison.get("methods"), comparison.get("seeds")
    named = {row: found for row, found in read_all_manifests(run).items() if rows is None or row in rows}
    kept = {row: {s: m for s, m in found.items() if seeds is None or s in seeds} for row, found in named.items()}
    return {row: found for row, found in kept.items() if found}


def read_all_manifests(run: Path) -> Manifests:
    """The manifests of every cell below a comparison or sweep, whether its table names it or not."""
    found = Manifests()
    for path in (Path(run) / RUNS).glob(f"*/seed-*/{SUPER_MODEL}/{MANIFEST}"):
        manifest, row = _manifest(path.parent), path.parents[2].name
        found.setdefault(row, {})[_seed(manifest)] = manifest
    return {row: dict(sorted(by_seed.items())) for row, by_seed in sorted(found.items())}


ENDS = ("mean_low", "mean_high")  # of the mean's interval, which only the model card shows


def told_by_sites(manifest: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Folder -> the mean test scores that its site sent, with `n` images: all there is where nobody sees all data."""
    told = (manifest.get("metrics") or {}).get("test", {})
    return {folder: {name: value for name, value in scores.items() if name not in ENDS}
            for by_folder in told.values() for folder, scores in by_folder.items()}


def _where_it_is(run: Path, name: str) -> dict[str, Any]:
    path = Path(run) / name
    return read_json(path, AGAIN) if path.exists() else {}


def _manifest(folder: Path) -> dict[str, Any]:
    """A super model's manifest with the entries the report builds on."""
    manifest = read_manifest(folder)
    kinds = {"method": str, "study": dict, "task": dict}
    faulty = [key for key, kind in kinds.items() if not isinstance(manifest.get(key), kind)]
    history = manifest.get("history", [])
    if not isinstance(history, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("sites"), dict) for entry in history
    ):
        faulty.append("history")
    if faulty:
        raise FedSuperError(f"{folder / MANIFEST}: '{faulty[0]}' is missing or of the wrong kind; hand it over again")
    return manifest


def _seed(manifest: Mapping[str, Any]) -> int:
    return int(manifest["study"].get("seed", 0))


def _is_score(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("per_site"), dict)
        and "client_avg" in value
        and "global" in value
    )
