"""`fedsuper report`: one HTML file about one or more runs that needs nothing but itself."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from fedsuper import __version__
from fedsuper.evaluation.run_files.records import read_comparison
from fedsuper.files import atomic_write_text
from fedsuper.report import sections as registry
from fedsuper.report.chapters import Chapter, read_chapters
from fedsuper.report.figures.style import colors_of
from fedsuper.report.finding import Finding, finding_of
from fedsuper.report.sections.base import Look, Section
from fedsuper.report.strip import strip

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Page:
    """A chapter as the template shows it."""

    slug: str
    finding: Finding
    strip: Markup
    sections: list[Section]
    absent: list[str]


def write_report(runs: Sequence[Path], out: Path) -> None:
    """Read `runs` and write the page to `out`, whole or not at all."""
    pages = [describe(chapter, f"part-{number}") for number, chapter in enumerate(read_chapters(runs), start=1)]
    atomic_write_text(Path(out), render(pages))


def write_figures(runs: Sequence[Path], folder: Path) -> list[Path]:
    """Save every figure of the report as a PNG in `folder`, for documents; returns the files."""
    chapters = read_chapters(runs)
    saved = []
    for number, chapter in enumerate(chapters, start=1):
        sections = sections_of(chapter, f"part-{number}-" if len(chapters) > 1 else "")
        saved += [picture.save(folder) for section in sections for picture in section.pictures]
    return saved


def sections_of(chapter: Chapter, prefix: str) -> list[Section]:
    """Every section that the chapter's runs have something for; figures are named with `prefix`."""
    look = Look(colors_of({entry.label: entry.method for entry in chapter.entries}), prefix)
    return [section for build in registry.SECTIONS for section in build(chapter, look)]


def describe(chapter: Chapter, slug: str) -> Page:
    """What the template shows of a chapter."""
    sections = sections_of(chapter, f"{slug}-")
    finding = finding_of(chapter)
    return Page(slug, finding, strip(finding.hospitals), sections, _absent(chapter, sections))


def render(pages: Sequence[Page]) -> str:
    """The page; everything that comes from runs is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    css, script = (Markup((HERE / name).read_text(encoding="utf-8")) for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    page = environment.get_template("page.html.j2")
    return page.render(chapters=pages, css=css, script=script, script_digest=digest, version=__version__)


def _absent(chapter: Chapter, sections: Sequence[Section]) -> list[str]:
    """One quiet line for each thing a reader may miss, after what a comparison says of itself."""
    notes = [read_comparison(run.folder).get("note") for run in chapter.runs]
    lines = [str(note) for note in notes if note]
    unscored = [entry.label for entry in chapter.entries if not entry.scores]
    if unscored:
        lines.append(f"No test scores yet: {', '.join(unscored)}.")
    untold = [entry.label for entry in chapter.entries if not entry.histories]
    if untold:
        which = "" if len(untold) == len(chapter.entries) else f": {', '.join(untold)}"
        lines.append(f"No training history found{which}.")
    if not any(section.anchor == "examples" for section in sections):
        lines.append("No example images were saved with these runs.")
    return lines
