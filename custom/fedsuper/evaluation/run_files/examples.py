"""Example images of a run as `exhibits.examples` left them: a picture, true and predicted masks."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsuper.errors import FedSuperError
from fedsuper.evaluation.run_files.names import EXAMPLES, EXAMPLES_INDEX
from fedsuper.files import read_json

Masks = dict[str, NDArray[np.bool_]]  # region -> [H, W]
AGAIN = "write the examples again with their run"


@dataclass(frozen=True)
class Answer:
    """A method's answer on an example: masks and Dice per region, and the model that gave it."""

    masks: Masks
    dice: dict[str, float]
    chosen: str | None = None


@dataclass(frozen=True)
class Example:
    """A test image: its picture (PNG) cut to `size` (width, height), true masks, and every method's.

    `whole` is the picture before it was cut; None of an earlier version.
    """

    site: str
    image: str
    place: str
    picture: bytes
    size: tuple[int, int]
    truth: Masks
    methods: dict[str, Answer]
    whole: bytes | None = None


@dataclass(frozen=True)
class Examples:
    """All examples of a run and the rule that chose them."""

    rule: str
    regions: list[str]
    items: list[Example]


def read_examples(run: Path) -> Examples | None:
    """The examples of a run, None where there are none; a torn index or picture is one clear line."""
    folder = Path(run) / EXAMPLES
    index = folder / EXAMPLES_INDEX
    if not index.exists():
        return None
    value = read_json(index, AGAIN)
    try:
        items = [_example(folder, entry) for entry in value["examples"]]
        return Examples(str(value["rule"]), [str(region) for region in value["regions"]], items) if items else None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FedSuperError(f"{index}: is torn ({error!r}); {AGAIN}") from None


def _example(folder: Path, entry: Mapping[str, Any]) -> Example:
    width, height = (int(side) for side in entry["size"])
    methods = {
        str(name): Answer(
            _masks(folder, answer["masks"]), {r: float(d) for r, d in answer["dice"].items()}, answer.get("model")
        )
        for name, answer in entry["methods"].items()
    }
    picture, truth = _file(folder, entry["picture"]), _masks(folder, entry["truth"])
    site, image, place = (str(entry[key]) for key in ("site", "image", "place"))
    whole = _file(folder, entry["whole"]) if "whole" in entry else None
    return Example(site, image, place, picture, (width, height), truth, methods, whole)


def _masks(folder: Path, names: Mapping[str, str]) -> Masks:
    from PIL import Image, UnidentifiedImageError

    found = {}
    for region, name in names.items():
        try:
            found[region] = np.asarray(Image.open(io.BytesIO(_file(folder, name))).convert("L")) > 0
        except UnidentifiedImageError:
            raise FedSuperError(f"{folder / name}: is not a PNG; {AGAIN}") from None
    return found


def _file(folder: Path, name: str) -> bytes:
    """A file of the examples folder; a name that leads out of it is refused."""
    path = folder / name
    if Path(name).name != name:
        index = folder / EXAMPLES_INDEX
        raise FedSuperError(f"{index}: names {name!r}, expected a plain file name; do not use these examples")
    try:
        return path.read_bytes()
    except OSError as error:
        raise FedSuperError(f"{path}: cannot be read ({error.strerror}); {AGAIN}") from None
