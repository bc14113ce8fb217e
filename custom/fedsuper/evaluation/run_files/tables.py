"""The tables of a run: a line per image, the map of features, the thresholds tried on sites left out."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuper.errors import FedSuperError
from fedsuper.evaluation.run_files.names import FEATURES, PER_IMAGE, ROUNDS, UNSEEN
from fedsuper.files import read_json


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


@dataclass(frozen=True)
class SiteCost:
    """What one round cost one site: bytes from and to the server, and the seconds of the whole round."""

    bytes_down: int
    bytes_up: int
    seconds: float


@dataclass(frozen=True)
class Threshold:
    """A gamma tried on an unseen site: the Dice, and the share of images each model segmented.

    `validated` marks the gamma that the sites of the training had chosen.
    """

    gamma: float
    dice: float
    chosen: dict[str, float]
    validated: bool


def read_images(run: Path) -> list[ImageRow]:
    """The rows of `per_image.csv`; none where there is no such file."""
    path = Path(run) / PER_IMAGE
    rows = _read_csv(path, ("method", "seed", "site", "image", "case", "mean", "model"))
    try:
        return [
            ImageRow(r["method"], int(r["seed"]), r["site"], r["image"], r["case"], float(r["mean"]), r["model"])
            for r in rows
        ]
    except ValueError as error:
        raise _no_number(path, error) from None


def read_rounds(run: Path) -> dict[int, dict[str, SiteCost]]:
    """Round -> site -> its cost, from `rounds.csv`; of a round that was run again, the last. Empty where there is none.
    """
    path = Path(run) / ROUNDS
    rounds: dict[int, dict[str, SiteCost]] = {}
    try:
        for row in _read_csv(path, ("round", "site", "bytes_down", "bytes_up", "seconds")):
            cost = SiteCost(int(row["bytes_down"]), int(row["bytes_up"]), float(row["seconds"]))
            rounds.setdefault(int(row["round"]), {})[row["site"]] = cost
    except ValueError as error:
        raise _no_number(path, error) from None
    return dict(sorted(rounds.items()))


def read_features(run: Path, method: str) -> dict[str, list[tuple[float, float]]]:
    """Site -> places of its images on the map of the method's selector; empty where there is no map."""
    path = Path(run) / FEATURES
    points: dict[str, list[tuple[float, float]]] = {}
    try:
        for row in _read_csv(path, ("method", "site", "x", "y")):
            if row["method"] == method:
                points.setdefault(row["site"], []).append((float(row["x"]), float(row["y"])))
    except ValueError as error:
        raise _no_number(path, error) from None
    return points


def read_unseen(run: Path) -> dict[str, list[list[Threshold]]]:
    """Unseen site -> thresholds tried with each super model trained without it, 0 and 1 among them (`unseen.json`)."""
    path = Path(run) / UNSEEN
    if not path.exists():
        return {}
    try:
        found = {site: list(map(_thresholds, runs.values())) for site, runs in _read_run_json(path).items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FedSuperError(f"{path}: is torn ({error!r}); write it again with its run") from None
    return {site: runs for site, runs in found.items() if runs}


def _thresholds(points: Sequence[Mapping[str, Any]]) -> list[Threshold]:
    found = [
        Threshold(float(p["gamma"]), float(p["dice"]), dict(p["chosen"]), bool(p.get("validated"))) for p in points
    ]
    if not {0.0, 1.0} <= {point.gamma for point in found}:
        raise ValueError("gamma 0 or 1 is missing")
    return found


def _read_run_json(path: Path) -> dict[str, Any]:
    return read_json(path, "write it again with the run that made it")


def _read_csv(path: Path, needed: tuple[str, ...]) -> list[dict[str, str]]:
    """The rows of `path`, which must have the columns `needed`; none where there is no file."""
    if not path.exists():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, restval=None, strict=True)
            found = list(rows)
            missing = [name for name in needed if name not in (rows.fieldnames or [])]
    except OSError as error:
        raise FedSuperError(f"{path}: cannot be read ({error.strerror}); give the folder of a finished run") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise FedSuperError(f"{path}: is torn or not a table ({error}); write it again with its run") from None
    if missing:
        raise FedSuperError(f"{path}: has no column {', '.join(missing)}; write it again with this FedSuper")
    torn = next((number for number, row in enumerate(found, start=2) if None in row.values() or None in row), None)
    if torn is not None:
        raise FedSuperError(f"{path}: row {torn} is torn; write the file again with the run that made it")
    return found


def _no_number(path: Path, error: ValueError) -> FedSuperError:
    return FedSuperError(f"{path}: holds something that is not a number ({error}); write it again")
