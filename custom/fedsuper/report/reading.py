"""From a run's folder to what the report tells of it.

Only files are read: `metrics.json`, `per_image.csv`, `supermodel.json`, `compare.json`, `study.yaml` and `examples/`.
Whatever is not there is left out of the report; whatever is there but torn is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedsuper.errors import FedSuperError
from fedsuper.inference.artefact import MANIFEST, read_manifest
from fedsuper.report.files import read_csv_file, read_json_file
from fedsuper.report.overlays import Examples, read_examples
from fedsuper.report.unseen import UnseenSite, read_unseen

METRICS = "metrics.json"
PER_IMAGE = "per_image.csv"
COMPARE = "compare.json"
STUDY = "study.yaml"
FEATURES = "features.csv"
POOLED = "centralized"
REFERENCES = (POOLED, "local")
# Ways of scoring that are no way of predicting: the best model by label, and the mean of all models' scores.
BOUNDS = ("(oracle)", "(average)")


@dataclass(frozen=True)
class ImageRow:
    """One line of `per_image.csv`: an image's Dice under a method and seed, and the model that segmented it."""

    method: str
    seed: int
    site: str
    image: str
    case: str
    mean: float
    model: str


@dataclass
class Entry:
    """One method of one run: its scores, and the manifests of its super models by seed."""

    label: str
    method: str
    run: Path
    scores: dict[str, Any] = field(default_factory=dict)
    manifests: dict[int, dict[str, Any]] = field(default_factory=dict)
    images: list[ImageRow] = field(default_factory=list)

    @property
    def reference(self) -> bool:
        """Not a federated method but something to hold one against: pooled data, every site alone, a bound."""
        return self.method.partition("+")[0] in REFERENCES or self.method.endswith(BOUNDS)

    @property
    def histories(self) -> list[list[dict[str, Any]]]:
        """The round-by-round records, one per seed."""
        return [manifest["history"] for manifest in self.manifests.values() if manifest.get("history")]

    @property
    def has_selector(self) -> bool:
        """Whether its super models route by a selector."""
        return "selector" in self.manifest.get("files", {})

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the first seed; empty where the super model is not there."""
        return next(iter(self.manifests.values()), {})


@dataclass
class Run:
    """One run folder."""

    folder: Path
    metrics: dict[str, Any]
    settings: dict[str, Any]
    entries: list[Entry]
    examples: Examples | None
    unseen: list[UnseenSite]


def read_run(folder: Path) -> Run:
    """One folder of `fedsuper run` or `fedsuper compare`."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FedSuperError(f"{folder}: there is no such folder; give one that `fedsuper run` or `compare` wrote")
    metrics = read_json_file(folder / METRICS) if (folder / METRICS).exists() else {}
    comparison = read_json_file(folder / COMPARE) if (folder / COMPARE).exists() else {}
    manifests = _comparison_manifests(folder, comparison) if (folder / "runs").is_dir() else _single_manifest(folder)
    scores = metrics.get("methods", {}) if metrics else _told_by_sites(manifests)
    if not isinstance(scores, dict) or not all(_is_score(value) for value in scores.values()):
        raise FedSuperError(f"{folder / METRICS}: 'methods' does not map methods to scores; write it again")
    if not scores and not manifests:
        raise FedSuperError(f"{folder}: holds neither {METRICS} nor a super model; give the folder of a finished run")
    images = read_images(folder / PER_IMAGE) if (folder / PER_IMAGE).exists() else []
    order = list(dict.fromkeys([*comparison.get("methods", []), *scores, *manifests]))
    entries = [
        Entry(
            name,
            name,
            folder,
            scores.get(name, {}),
            manifests.get(name, {}),
            [row for row in images if row.method == name],
        )
        for name in order
        if name in scores or name in manifests
    ]
    return Run(
        folder, metrics, comparison or _study(folder), entries, read_examples(folder / "examples"), read_unseen(folder)
    )


def read_images(path: Path) -> list[ImageRow]:
    """The rows of `per_image.csv`."""
    rows = read_csv_file(path, ("method", "seed", "site", "image", "case", "mean", "model"))
    try:
        return [
            ImageRow(r["method"], int(r["seed"]), r["site"], r["image"], r["case"], float(r["mean"]), r["model"])
            for r in rows
        ]
    except ValueError as error:
        raise FedSuperError(f"{path}: holds something that is not a number ({error}); write it again") from None


def read_features(path: Path, method: str) -> dict[str, list[tuple[float, float]]]:
    """Site -> places of its images on the map of the method's selector."""
    points: dict[str, list[tuple[float, float]]] = {}
    try:
        for row in read_csv_file(path, ("method", "site", "x", "y")):
            if row["method"] == method:
                points.setdefault(row["site"], []).append((float(row["x"]), float(row["y"])))
    except ValueError as error:
        raise FedSuperError(f"{path}: holds something that is not a number ({error}); write it again") from None
    return points


def _single_manifest(folder: Path) -> dict[str, dict[int, dict[str, Any]]]:
    if not (folder / "supermodel" / MANIFEST).exists():
        return {}
    manifest = _manifest(folder / "supermodel")
    return {manifest["method"]: {int(manifest["study"].get("seed", 0)): manifest}}


def _comparison_manifests(folder: Path, comparison: dict[str, Any]) -> dict[str, dict[int, dict[str, Any]]]:
    """The super models of the rows and seeds that the comparison names; of all, while it has not ended yet.

    A row is known by its folder: `fedsm` and `fedsm+personal=ft` are the same method.
    """
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for path in (folder / "runs").glob(f"*/seed-*/supermodel/{MANIFEST}"):
        manifest = _manifest(path.parent)
        row, seed = path.parents[2].name, int(manifest["study"].get("seed", 0))
        if row in comparison.get("methods", [row]) and seed in comparison.get("seeds", [seed]):
            found.setdefault(row, {})[seed] = manifest
    return {method: dict(sorted(by_seed.items())) for method, by_seed in sorted(found.items())}


def _told_by_sites(manifests: dict[str, dict[int, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Without `metrics.json` (production: nobody sees all images) the mean scores that each site sent of its own."""
    scores = {}
    for method, by_seed in manifests.items():
        told: dict[str, dict[str, float]] = {}
        for of_site in (next(iter(by_seed.values())).get("metrics") or {}).get("test", {}).values():
            told |= of_site
        images = {site: int(means["n"]) for site, means in told.items()}
        if told and sum(images.values()):
            scores[method] = {
                "per_site": {
                    site: {name: value for name, value in means.items() if name != "n"} for site, means in told.items()
                },
                "client_avg": sum(means["mean"] for means in told.values()) / len(told),
                "global": sum(means["mean"] * images[site] for site, means in told.items()) / sum(images.values()),
                "n": sum(images.values()),
                "images": images,
            }
    return scores


def _manifest(folder: Path) -> dict[str, Any]:
    """A super model's manifest with the entries the report builds on."""
    manifest = read_manifest(folder)
    faulty = [
        key
        for key, kind in (("method", str), ("study", dict), ("task", dict))
        if not isinstance(manifest.get(key), kind)
    ]
    history = manifest.get("history", [])
    if not isinstance(history, list) or not all(
        isinstance(e, dict) and isinstance(e.get("sites"), dict) for e in history
    ):
        faulty.append("history")
    if faulty:
        raise FedSuperError(f"{folder / MANIFEST}: '{faulty[0]}' is missing or of the wrong kind; hand it over again")
    return manifest


def _study(folder: Path) -> dict[str, Any]:
    import yaml

    path = folder / STUDY
    if not path.exists():
        return {}
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise FedSuperError(f"{path}: is torn ({' '.join(str(error).split())[:120]}); write it again") from None
    return {"study": value}


def _is_score(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("per_site"), dict)
        and "client_avg" in value
        and "global" in value
    )
