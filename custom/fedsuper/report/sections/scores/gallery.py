"""An image of every site, whole: what tells the hospitals apart before any model is asked (FedSM, Figs. 5 and 6)."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from fedsuper.evaluation.run_files.examples import Example, read_examples
from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.labels import short
from fedsuper.report.figures.picture import Picture
from fedsuper.report.figures.style import figure
from fedsuper.report.markup import join, note
from fedsuper.report.sections.base import Look, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTE = "One image of every site, that of median Dice, as it came; of a volume the slice where structures are largest."
COLUMNS = 3


def build(chapter: Chapter, look: Look) -> list[Section]:
    """From the first run that saved examples; none where none did."""
    for run in chapter.runs:
        found = read_examples(run.folder)
        first: dict[str, Example] = {}
        for item in found.items if found else []:
            if item.whole is not None:
                first.setdefault(item.site, item)
        if first:
            items = list(first.values())
            picture = Picture(f"{look.prefix}gallery", partial(gallery_figure, items), NOTE)
            shots = Markup('<div class="gallery">{}</div>').format(join(map(_shot, items)))
            return [Section("gallery", "Sites’ images", "What the sites’ images look like", join([note(NOTE), shots]),
                            (picture,))]  # fmt: skip
    return []


def _shot(item: Example) -> Markup:
    uri = f"data:image/jpeg;base64,{base64.b64encode(item.whole or b'').decode('ascii')}"
    text = '<figure><img src="{}" alt="Image {} of {}"><figcaption>{}</figcaption></figure>'
    return Markup(text).format(uri, item.image, item.site, item.site)


def gallery_figure(items: Sequence[Example]) -> Figure:
    """Three sites a row, as in the paper."""
    from PIL import Image

    rows = -(-len(items) // COLUMNS)
    with figure(2.2 * COLUMNS, 2.4 * rows, rows, COLUMNS) as (made, grid):
        for axes in grid:
            axes.axis("off")
        for axes, item in zip(grid, items, strict=False):
            axes.imshow(np.asarray(Image.open(io.BytesIO(item.whole or b"")).convert("RGB")))
            axes.set_title(short(item.site), fontsize=9)
        return made
