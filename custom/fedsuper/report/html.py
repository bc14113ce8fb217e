"""`fedsuper report`: one HTML file about one or more runs that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsuper import __version__
from fedsuper.files import atomic_write_text
from fedsuper.report.chapters import read_chapters
from fedsuper.report.content import describe, pictures_of

TEMPLATES = Path(__file__).with_name("templates")


def write_report(runs: Sequence[Path], out: Path) -> None:
    """Read `runs` and write the page to `out`, whole or not at all."""
    chapters = [describe(chapter, f"part-{number}") for number, chapter in enumerate(read_chapters(runs), start=1)]
    atomic_write_text(Path(out), render(chapters))


def write_figures(runs: Sequence[Path], folder: Path) -> list[Path]:
    """Save every figure of the report as a PNG in `folder`, for documents; returns the files."""
    chapters = read_chapters(runs)
    saved = []
    for number, chapter in enumerate(chapters, start=1):
        prefix = f"part-{number}-" if len(chapters) > 1 else ""
        saved += [picture.save(folder) for picture in pictures_of(chapter, prefix)]
    return saved


def render(chapters: Sequence[Mapping[str, Any]]) -> str:
    """The page; everything that comes from runs is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    css = Markup((TEMPLATES / "report.css").read_text(encoding="utf-8"))
    page = environment.get_template("report.html.j2")
    return page.render(chapters=chapters, css=css, version=__version__, title=chapters[0]["title"])
