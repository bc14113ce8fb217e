"""The loss around each method's model along random directions (FedSM, Fig. 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from fedsuper.evaluation.run_files.records import read_loss_surface
from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.picture import Picture
from fedsuper.report.figures.style import figure
from fedsuper.report.markup import chart
from fedsuper.report.sections.base import Look, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def build(chapter: Chapter, look: Look) -> list[Section]:
    """None where no surface was computed (`fedsuper compare --with loss-surface`)."""
    sections = []
    for number, run in enumerate(chapter.runs):
        found = read_loss_surface(run.folder)
        labels = {entry.method: entry.label for entry in run.entries}
        losses = {labels[method]: values for method, values in found.get("losses", {}).items() if method in labels}
        if not losses:
            continue
        caption = (
            f"Dice loss on the test images of {found['site']} at a distance from each method's model, mean over random "
            "directions of length 1. Flat and low is good: nearby models would do as well."
        )
        picture = Picture(
            f"{look.prefix}loss-surface{number or ''}",
            partial(curves, found["distances"], losses, look.colors),
            caption,
            caption,
        )
        sections.append(
            Section(f"surface{number or ''}", "Loss surface", "How flat is the loss?", chart(picture), (picture,))
        )
    return sections


def curves(distances: Sequence[float], losses: Mapping[str, Sequence[float]], colors: Mapping[str, str]) -> Figure:
    """One curve a method; the middle is the trained model."""
    with figure(9.5, 3.6) as (made, (axes,)):
        for label, values in losses.items():
            axes.plot(distances, values, color=colors[label], linewidth=2, marker="o", markersize=3.5, label=label)
        axes.set_xlabel("distance from the trained model")
        axes.set_ylabel("Dice loss")
        made.legend(loc="outside upper left", ncols=min(len(losses), 5), handletextpad=0.4, columnspacing=1.4)
        return made
