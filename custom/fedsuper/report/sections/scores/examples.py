"""Example images: a picture, the true outlines, and every method's on top."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from fedsuper.core.mode import OWN, SELECT, SELECT_ALL
from fedsuper.evaluation.run_files.examples import Answer, Example, Examples, read_examples
from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.picture import Picture
from fedsuper.report.figures.style import REGION_COLORS, figure
from fedsuper.report.markup import details, join, note
from fedsuper.report.numbers import dice
from fedsuper.report.runs import Entry, Run
from fedsuper.report.sections.base import Look, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Ways of predicting in which an image is given to one of several models.
CHOOSING_MODES = (OWN, SELECT, SELECT_ALL)
SWITCH = Markup('<label class="switch"><input type="checkbox" class="show-truth" checked> Show true outlines</label>')
Rings = list[NDArray[np.float64]]


def build(chapter: Chapter, look: Look) -> list[Section]:
    """The examples of every run that saved some."""
    found = [(run, examples) for run in chapter.runs if (examples := read_examples(run.folder))]
    if not found:
        return []
    sets = [_example_set(run, examples, f"{look.prefix}{n}", n == 0) for n, (run, examples) in enumerate(found)]
    pictures = tuple(_picture(run, saved, f"{look.prefix}examples{n or ''}") for n, (run, saved) in enumerate(found))
    body = Markup('<div class="examples">{}</div>').format(join(sets))
    return [Section("examples", "Examples", "Examples", body, pictures)]


def rings_of(mask: NDArray[np.bool_]) -> Rings:
    """The boundary of a mask `[H, W]` as closed rings of points (x, y) in pixels; straight runs are one segment."""
    from contourpy import contour_generator

    padded = np.pad(np.asarray(mask, dtype=np.float32), 1)
    rings = []
    for line in contour_generator(z=padded).lines(0.5):
        ring = np.asarray(line)[:-1] - 0.5  # closed: first = last; undo the padding, a pixel's middle is at +0.5
        before, after = ring - np.roll(ring, 1, axis=0), np.roll(ring, -1, axis=0) - ring
        kept = ring[before[:, 0] * after[:, 1] != before[:, 1] * after[:, 0]]
        rings += [kept] if len(kept) > 2 else []
    return rings


def outline_path(mask: NDArray[np.bool_]) -> str:
    """The boundary as SVG path data."""
    return "".join("M" + "L".join(f"{x:g} {y:g}" for x, y in ring) + "Z" for ring in rings_of(mask))


def _example_set(run: Run, examples: Examples, identity: str, first: bool) -> Markup:
    """One run's examples: the first place of the ranking in full, the others to unfold."""
    entries = {entry.method: entry for entry in run.entries}
    colors = _region_colors(examples.regions)
    places: dict[str, list[Markup]] = {}
    for number, item in enumerate(examples.items):
        case = _case(item, f"{identity}-example-{number}", colors, entries)
        places.setdefault(item.place, []).append(case)
    shots = max(len(item.methods) for item in examples.items) + 1
    legend = [
        Markup('<li><i style="border-color:{}"></i>{}, predicted</li>').format(color, region)
        for region, color in colors.items()
    ]
    legend.append(Markup('<li><i class="true"></i>true outline</li>'))
    parts = [note(examples.rule), Markup('<ul class="legend">{}</ul>').format(join(legend))]
    parts += [SWITCH] if first else []
    for number, (place, cases) in enumerate(places.items()):
        group = Markup('<div class="cases" style="--shots: {}">{}</div>').format(shots, join(cases))
        parts.append(details(f"{place[:1].upper()}{place[1:]} of every site", group) if number else group)
    return join(parts)


def _case(item: Example, identity: str, colors: Mapping[str, str], entries: Mapping[str, Entry]) -> Markup:
    """An image and every method's answer on it; the picture is there once and used by all."""
    width, height = item.size
    uri = f"data:image/png;base64,{base64.b64encode(item.picture).decode('ascii')}"
    image = Markup('<image id="{}" href="{}" width="{}" height="{}" preserveAspectRatio="none"/>')
    plain = _shot(item, f"Test image {item.image} of {item.site}", image.format(identity, uri, width, height), "image")
    truth = Markup("").join(
        Markup('<path class="truth" d="{}"/>').format(outline_path(item.truth[region]))
        for region in colors
        if item.truth.get(region, np.zeros(1)).any()
    )
    shots = [plain]
    for method, answer in item.methods.items():
        entry = entries.get(method)
        scores = ", ".join(f"{region} {dice(answer.dice.get(region))}" for region in colors)
        used = Markup('<use href="#{}"/>{}{}').format(identity, _guesses(answer, colors), truth)
        alt = f"{item.image} of {item.site} by {method}: Dice {scores}"
        chooses = entry is not None and entry.manifest.get("mode") in CHOOSING_MODES
        words = Markup("<span>{}</span>{}").format(scores, _whose(answer.chosen) if chooses else "")
        shots.append(_shot(item, alt, used, entry.label if entry else method, words))
    title = Markup("<h3>{} <span>· {} · {}</span></h3>").format(item.site, item.image, item.place)
    return Markup('<div class="case">{}<div class="strip">{}</div></div>').format(title, join(shots))


def _shot(item: Example, alt: str, drawn: Markup, name: str, words: Markup | str = "") -> Markup:
    text = '<div class="shot"><svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg><b>{}</b>{}</div>'
    return Markup(text).format(*item.size, alt, drawn, name, words)


def _guesses(answer: Answer, colors: Mapping[str, str]) -> Markup:
    return Markup("").join(
        Markup('<path class="guess" style="stroke:{}" d="{}"/>').format(color, outline_path(answer.masks[region]))
        for region, color in colors.items()
        if region in answer.masks and answer.masks[region].any()
    )


def _whose(model: str | None) -> Markup:
    whose = "the global model" if model == "global" else f"{model}’s model"
    return Markup("<br>by {}").format(whose) if model else Markup()


def _region_colors(regions: Sequence[str]) -> dict[str, str]:
    return {region: REGION_COLORS[index % len(REGION_COLORS)] for index, region in enumerate(regions)}


def _picture(run: Run, examples: Examples, name: str) -> Picture:
    """One example a site, those at the first rank of the rule, for documents."""
    items = [item for item in examples.items if item.place == examples.items[0].place]
    labels = {entry.method: entry.label for entry in run.entries}
    methods = {method: labels.get(method, method) for item in items for method in item.methods}
    return Picture(name, lambda: example_figure(items, _region_colors(examples.regions), methods), examples.rule)


def example_figure(items: Sequence[Example], colors: Mapping[str, str], methods: Mapping[str, str]) -> Figure:
    """Rows of examples by columns of `methods` (name -> title)."""
    from PIL import Image

    side = 1.75
    rows, columns = len(items), len(methods)
    with figure(side * columns + 0.5, (side + 0.25) * rows, rows, columns) as (made, grid):
        for row, example in enumerate(items):
            picture = np.asarray(Image.open(io.BytesIO(example.picture)).convert("RGB"))
            for column, (method, title) in enumerate(methods.items()):
                axes = grid[row * columns + column]
                axes.imshow(picture, extent=(0, example.size[0], example.size[1], 0), interpolation="bilinear")
                axes.axis("off")
                if row == 0:
                    axes.set_title(title, fontsize=9)
                answer = example.methods.get(method)
                for region, color in colors.items():
                    if answer and region in answer.masks:
                        _outline(axes, answer.masks[region], color, 1.3, "-")
                    if region in example.truth:
                        _outline(axes, example.truth[region], "#ffffff", 0.8, "--")
        return made


def _outline(axes: Axes, mask: NDArray[np.bool_], color: str, width: float, style: str) -> None:
    for ring in rings_of(mask):
        closed = np.vstack([ring, ring[:1]])
        axes.plot(closed[:, 0], closed[:, 1], color=color, linewidth=width, linestyle=style)
