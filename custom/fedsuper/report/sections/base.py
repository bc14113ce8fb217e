"""What a section of the report is: a function from a chapter to what the page shows of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from fedsuper.report.chapters import Chapter
from fedsuper.report.figures.picture import Picture


@dataclass(frozen=True)
class Look:
    """What keeps sections alike and apart: a color per method's label, and what the names of figures start with."""

    colors: Mapping[str, str]
    prefix: str


@dataclass(frozen=True)
class Section:
    """A card on the page; `name` stands in the list of contents, `pictures` are what `--figures` saves."""

    anchor: str
    name: str
    title: str
    body: Markup
    pictures: tuple[Picture, ...] = ()


# A chapter to its sections of one kind; none where the runs do not hold what the section tells.
Build = Callable[[Chapter, Look], list[Section]]
