"""Examples as `examples.write_examples` left them: a picture, true and predicted outlines on top."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsuper.errors import FedSuperError
from fedsuper.report.files import read_json_file
from fedsuper.report.style import REGION_COLOURS, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INDEX = "index.json"


@dataclass(frozen=True)
class Outline:
    """A method's answer on an example: outlines and Dice per region, and the model that gave it."""

    paths: dict[str, str]
    dice: dict[str, float]
    chosen: str | None = None


@dataclass(frozen=True)
class Example:
    """A test image: its picture as a data URI, true outlines, and every method's."""

    site: str
    image: str
    place: str
    picture: str
    size: tuple[int, int]
    truth: dict[str, str]
    methods: dict[str, Outline]


@dataclass(frozen=True)
class Examples:
    """All examples of a run and the rule that chose them."""

    rule: str
    regions: list[str]
    items: list[Example]


def read_examples(folder: Path) -> Examples | None:
    """The examples in `folder`, None where there are none; a torn index or picture is one clear line."""
    index = folder / INDEX
    if not index.exists():
        return None
    value = read_json_file(index)
    try:
        items = [_read_example(folder, entry) for entry in value["examples"]]
        return Examples(str(value["rule"]), [str(region) for region in value["regions"]], items)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FedSuperError(f"{index}: is torn ({error!r}); write the examples again with their run") from None


def outline_path(mask: np.ndarray) -> str:
    """The boundary of a boolean mask `[H, W]` as SVG path data in pixel units; straight runs become one segment."""
    from contourpy import contour_generator

    padded = np.pad(np.asarray(mask, dtype=np.float32), 1)
    parts = []
    for line in contour_generator(z=padded).lines(0.5):
        ring = np.asarray(line)[:-1] - 0.5  # closed: first = last; undo the padding, a pixel's middle is at +0.5
        before, after = ring - np.roll(ring, 1, axis=0), np.roll(ring, -1, axis=0) - ring
        kept = ring[before[:, 0] * after[:, 1] != before[:, 1] * after[:, 0]]
        if len(kept) > 2:
            parts.append("M" + "L".join(f"{x:g} {y:g}" for x, y in kept) + "Z")
    return "".join(parts)


def example_figure(items: Sequence[Example], regions: Sequence[str], methods: Mapping[str, str]) -> Figure:
    """Rows of examples by columns of `methods` (name -> title); the page draws its own from the same outlines."""
    from matplotlib.patches import PathPatch
    from PIL import Image

    side = 1.75
    rows, columns = len(items), len(methods)
    with figure(side * columns + 0.5, (side + 0.25) * rows, rows, columns) as (made, grid):
        for row, example in enumerate(items):
            data = base64.b64decode(example.picture.partition(",")[2])
            picture = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
            for column, (method, title) in enumerate(methods.items()):
                axes = grid[row * columns + column]
                axes.imshow(picture, extent=(0, example.size[0], example.size[1], 0), interpolation="bilinear")
                axes.axis("off")
                if row == 0:
                    axes.set_title(title, fontsize=9)
                answer = example.methods.get(method)
                for index, region in enumerate(regions):
                    true, guess = example.truth.get(region), answer.paths.get(region) if answer else None
                    if guess:
                        colour = REGION_COLOURS[index % len(REGION_COLOURS)]
                        axes.add_patch(PathPatch(_to_path(guess), fill=False, edgecolor=colour, linewidth=1.3))
                    if true:
                        axes.add_patch(
                            PathPatch(_to_path(true), fill=False, edgecolor="#ffffff", linewidth=0.8, linestyle="--")
                        )
        return made


def _to_path(data: str) -> Any:
    from matplotlib.path import Path as DrawnPath

    vertices: list[tuple[float, float]] = []
    codes: list[Any] = []
    for part in data.split("Z"):
        points = [tuple(map(float, pair.split())) for pair in part.removeprefix("M").split("L") if pair]
        if points:
            vertices += [*points, points[0]]  # type: ignore[list-item]
            codes += [DrawnPath.MOVETO, *[DrawnPath.LINETO] * (len(points) - 1), DrawnPath.CLOSEPOLY]
    return DrawnPath(vertices, codes)


def _read_example(folder: Path, entry: Mapping[str, Any]) -> Example:
    picture = _file(folder, entry["picture"])
    width, height = (int(side) for side in entry["size"])
    methods = {
        str(name): Outline(
            _outlines(folder, answer["masks"]), {r: float(d) for r, d in answer["dice"].items()}, answer.get("model")
        )
        for name, answer in entry["methods"].items()
    }
    uri = f"data:image/png;base64,{base64.b64encode(picture).decode('ascii')}"
    return Example(
        str(entry["site"]),
        str(entry["image"]),
        str(entry["place"]),
        uri,
        (width, height),
        _outlines(folder, entry["truth"]),
        methods,
    )


def _outlines(folder: Path, masks: Mapping[str, str]) -> dict[str, str]:
    from PIL import Image, UnidentifiedImageError

    found = {}
    for region, name in masks.items():
        try:
            mask = np.asarray(Image.open(io.BytesIO(_file(folder, name))).convert("L")) > 0
        except UnidentifiedImageError:
            raise FedSuperError(f"{folder / name}: is not a PNG; write the examples again") from None
        found[region] = outline_path(mask)
    return found


def _file(folder: Path, name: str) -> bytes:
    """A file of the examples folder; a name that leads out of it is refused."""
    path = folder / name
    if Path(name).name != name:
        raise FedSuperError(f"{folder / INDEX}: names {name!r}, expected a plain file name; do not use these examples")
    try:
        return path.read_bytes()
    except OSError as error:
        raise FedSuperError(f"{path}: cannot be read ({error.strerror}); write the examples again") from None
