"""A figure as the page shows it: drawn when it is needed, as inline SVG or as a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from fedsuper.files import atomic_write_bytes
from fedsuper.report.figures.style import to_png, to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDEST_OF_TWO = 5.2  # inches


@dataclass(frozen=True)
class Picture:
    """A figure with its words; `name` is also its file name when it is saved.

    `alt` says in words what the figure shows, `caption` stands below it, `title` above it.
    """

    name: str
    draw: Callable[[], Figure]
    alt: str
    caption: str = ""
    title: str = ""

    @cached_property
    def figure(self) -> Figure:
        """The figure, drawn once."""
        return self.draw()

    @property
    def wide(self) -> bool:
        """Too wide to stand beside another."""
        return float(self.figure.get_figwidth()) > WIDEST_OF_TWO

    @cached_property
    def svg(self) -> Markup:
        """Inline SVG; all text in it has been escaped by the writer of the SVG."""
        return Markup(to_svg(self.figure, self.name))

    def save(self, folder: Path) -> Path:
        """Write the figure as a PNG for documents."""
        path = Path(folder) / f"{self.name}.png"
        atomic_write_bytes(path, to_png(self.figure))
        return path
