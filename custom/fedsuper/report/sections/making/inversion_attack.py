"""What a server could see of a training image in a site's update, with and without noise (IOP-FL, Fig. 10)."""

from __future__ import annotations

import base64
import io
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from fedsuper.errors import FedSuperError
from fedsuper.evaluation.run_files.names import INVERSION
from fedsuper.evaluation.run_files.records import AGAIN, read_inversion
from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.picture import Picture
from fedsuper.report.figures.style import figure
from fedsuper.report.markup import join, note
from fedsuper.report.sections.base import Look, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTE = (
    "The worst case for {} of {}: a server that knows the weights it sent, the mask and the learning rate tries to "
    "read the image from one step on this image alone. Likeness is the correlation of the pixels; ε is what the noise "
    "promises for one such answer at δ = 0.00001."
)
Shots = list[tuple[str, bytes]]  # words and picture


def build(chapter: Chapter, look: Look) -> list[Section]:
    """None where no image was attacked (`fedsuper compare --with inversion`)."""
    sections = []
    for number, run in enumerate(chapter.runs):
        found = read_inversion(run.folder)
        if found:
            shots = _shots(run.folder / INVERSION, found)
            words = NOTE.format(found["image"], found["site"])
            picture = Picture(f"{look.prefix}inversion{number or ''}", partial(sheet, shots), words)
            body = join([note(words), Markup('<div class="gallery">{}</div>').format(join(_shot(s) for s in shots))])
            title = "What could a server see of an image?"
            sections.append(Section(f"inversion{number or ''}", "Inversion", title, body, (picture,)))
    return sections


def _shots(folder: Path, found: dict[str, Any]) -> Shots:
    shots = [("the image", _read(folder, found["picture"]))]
    for way in found["ways"]:
        promise = "no promise" if way["epsilon"] is None else f"ε {way['epsilon']:.3g}"
        shots.append((f"{way['way']}: likeness {way['likeness']:.2f}, {promise}", _read(folder, way["picture"])))
    return shots


def _read(folder: Path, name: str) -> bytes:
    try:
        return (folder / Path(name).name).read_bytes()
    except OSError as error:
        raise FedSuperError(f"{folder / name}: cannot be read ({error.strerror}); {AGAIN}") from None


def _shot(shot: tuple[str, bytes]) -> Markup:
    words, picture = shot
    uri = f"data:image/png;base64,{base64.b64encode(picture).decode('ascii')}"
    return Markup('<figure><img src="{}" alt="{}"><figcaption>{}</figcaption></figure>').format(uri, words, words)


def sheet(shots: Shots) -> Figure:
    """Side by side, for documents."""
    from PIL import Image

    with figure(2.2 * len(shots), 2.6, 1, len(shots)) as (made, grid):
        for axes, (words, picture) in zip(grid, shots, strict=True):
            axes.imshow(np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")))
            axes.set_title(words.replace(": ", "\n"), fontsize=8)
            axes.axis("off")
        return made
