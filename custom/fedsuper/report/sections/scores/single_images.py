"""Single images: how far a method's scores spread at every site (IOP-FL, Fig. 8), and the worst of them by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.labels import short
from fedsuper.report.figures.picture import Picture
from fedsuper.report.figures.style import INK, figure
from fedsuper.report.finding import subject_of
from fedsuper.report.markup import Row, chart, details, join, note, table
from fedsuper.report.numbers import dice, mean
from fedsuper.report.runs import Entry
from fedsuper.report.sections.base import Look, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_METHODS, WORST = 6, 8
FEWEST_IMAGES = 4  # a box of three is no box
NOTE = (
    "Dice of every test image, averaged over regions and seeds. Box: the middle half; line: the median; whiskers: "
    "the 5th to the 95th percentile; dots: images beyond them."
)

Scores = dict[str, dict[str, float]]  # site -> image -> mean Dice over seeds


def build(chapter: Chapter, look: Look) -> list[Section]:
    """A box per method and site; the worst images of the leading method. None where images are few or unknown."""
    scores = {entry.label: image_scores(entry) for entry in _shown(chapter)}
    scores = {label: found for label, found in scores.items() if max(map(len, found.values())) >= FEWEST_IMAGES}
    best = subject_of(chapter)
    if not scores or best is None:
        return []
    text = NOTE
    if len(scores) < len([entry for entry in chapter.scored if entry.images]):
        text += f" Shown: {', '.join(scores)}."
    picture = Picture(
        f"{look.prefix}single-images",
        lambda: boxes(scores, chapter.sites, look.colors),
        f"Box plots of the Dice of single images at {len(chapter.sites)} sites: {', '.join(scores)}",
    )
    parts = [note(text), chart(picture)]
    if best.label in scores:
        parts.append(details(f"The {WORST} worst images of {best.label}", _worst(best.label, scores)))
    return [Section("images", "Single images", "Single images", join(parts), (picture,))]


def image_scores(entry: Entry) -> Scores:
    """Every image's mean Dice over seeds, by site."""
    collected: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in entry.images:
        collected[row.site][row.image].append(row.mean)
    return {site: {image: mean(values) for image, values in images.items()} for site, images in collected.items()}


def _shown(chapter: Chapter) -> list[Entry]:
    """All methods, or the best federated ones and the references where they are many."""
    entries = [entry for entry in chapter.comparable if entry.images and not entry.bound]
    if len(entries) <= MOST_METHODS:
        return entries
    ranked = sorted(entries, key=lambda entry: (entry.reference, -float(entry.scores["client_avg"])))
    references = [entry for entry in ranked if entry.method in ("centralized", "local", "fedavg")]
    kept = [*references, *(entry for entry in ranked if entry not in references)][:MOST_METHODS]
    return [entry for entry in entries if entry in kept]


def _worst(label: str, scores: Mapping[str, Scores]) -> Markup:
    """The lowest scores of one method, and what the others reached on the same images."""
    found = sorted((value, site, image) for site, images in scores[label].items() for image, value in images.items())
    others = [name for name in scores if name != label]
    rows = []
    for value, site, image in found[:WORST]:
        theirs = [dice(scores[name].get(site, {}).get(image)) for name in others]
        rows.append(Row(f"{site}, {image}", [dice(value), *theirs]))
    return table(["Image", label, *others], [rows], "worst-images")


def boxes(scores: Mapping[str, Scores], sites: Sequence[str], colors: Mapping[str, str]) -> Figure:
    """Groups of boxes, one group a site, one box a method."""
    width = 0.8 / len(scores)
    with figure(9.5, 3.6) as (made, (axes,)):
        for number, (label, by_site) in enumerate(scores.items()):
            present = [(place, site) for place, site in enumerate(sites) if by_site.get(site)]
            drawn = axes.boxplot(
                [list(by_site[site].values()) for _, site in present],
                positions=[place + (number - (len(scores) - 1) / 2) * width for place, _ in present],
                widths=width * 0.78,
                whis=(5, 95),
                patch_artist=True,
                manage_ticks=False,
                flierprops={"marker": ".", "markersize": 3, "markerfacecolor": colors[label], "markeredgewidth": 0},
                medianprops={"color": INK, "linewidth": 1.2},
                whiskerprops={"color": colors[label]},
                capprops={"color": colors[label]},
                boxprops={"facecolor": colors[label], "alpha": 0.55, "linewidth": 0},
            )
            drawn["boxes"][0].set_label(short(label, 28))
        axes.set_xticks(range(len(sites)), [short(site) for site in sites])
        axes.tick_params(axis="x", labelcolor=INK, length=0)
        axes.set_xlim(-0.5, len(sites) - 0.5)
        axes.grid(axis="x", visible=False)
        axes.set_ylabel("Dice of an image")
        made.legend(loc="outside upper left", ncols=min(len(scores), 6), handletextpad=0.4, columnspacing=1.4)
        return made
