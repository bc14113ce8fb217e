"""`fedsuper report`: one HTML file about one or more runs that needs nothing but itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsuper import __version__
from fedsuper.files import atomic_write_text
from fedsuper.report.chapters import Chapter, read_chapters
from fedsuper.report.headline import facts_of, lead_of, title_of
from fedsuper.report.overlays import Example, example_figure
from fedsuper.report.paired import statistics_of
from fedsuper.report.pictures import Picture, dots_picture, matrix_picture, selector_pictures, training_picture
from fedsuper.report.provenance import provenance_of
from fedsuper.report.reading import Run
from fedsuper.report.results import dice, results_table
from fedsuper.report.style import REGION_COLOURS, colours_of

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


def pictures_of(chapter: Chapter, prefix: str) -> list[Picture]:
    """All of a chapter's figures, the example overlays included."""
    content = describe(chapter, prefix.rstrip("-"), prefix)
    found = [content["dots"], content["training"], content["matrix"]]
    found += [picture for selector in content["selectors"] for picture in selector["pictures"]]
    for number, run in enumerate(chapter.runs):
        if run.examples and run.examples.items:
            methods = list(dict.fromkeys(method for item in run.examples.items for method in item.methods))
            made = example_figure(run.examples.items, run.examples.regions, methods)
            found.append(Picture(f"{prefix}examples{number or ''}", made, run.examples.rule))
    return [picture for picture in found if picture is not None]


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
    css = Markup((TEMPLATES / "report.css").read_text(encoding="utf-8"))  # noqa: S704 (a file of this package)
    page = environment.get_template("report.html.j2")
    return page.render(chapters=chapters, css=css, version=__version__, title=chapters[0]["title"])


def describe(chapter: Chapter, slug: str, prefix: str | None = None) -> dict[str, Any]:
    """What the template shows of a chapter; parts that a run does not have are None or empty."""
    prefix = f"{slug}-" if prefix is None else prefix
    colours = colours_of({entry.label: entry.method for entry in chapter.entries})
    selectors = []
    for entry in chapter.entries:
        pictures = selector_pictures(entry, colours[entry.label], f"{prefix}{_slug(entry.label)}-")
        if pictures:
            selectors.append(
                {
                    "title": f"The selector of {entry.label}",
                    "anchor": f"selector-{_slug(entry.label)}",
                    "pictures": pictures,
                    "note": "It tells from the image alone which site's model knows its kind.",
                }
            )
    content: dict[str, Any] = {
        "slug": slug,
        "title": title_of(chapter),
        "lead": lead_of(chapter),
        "facts": facts_of(chapter),
        "table": results_table(chapter, colours),
        "dots": dots_picture(chapter, colours, prefix),
        "statistics": statistics_of(chapter, colours),
        "training": training_picture(chapter, colours, prefix),
        "matrix": matrix_picture(chapter, prefix),
        "selectors": selectors,
        "examples": [
            _example_set(run, f"{prefix}{number}")
            for number, run in enumerate(chapter.runs)
            if run.examples and run.examples.items
        ],
        "provenance": provenance_of(chapter),
    }
    return content | {"contents": _contents(content), "absent": _absent(chapter, content)}


def _contents(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    names = [
        ("table", "results", "Results"),
        ("statistics", "statistics", "Significance"),
        ("training", "training", "Training"),
        ("matrix", "matrix", "Site by model"),
    ]
    found = [(anchor, name) for key, anchor, name in names if content[key]]
    found += [
        (selector["anchor"], selector["title"].removeprefix("The ").replace("s", "S", 1))
        for selector in content["selectors"]
    ]
    return found + ([("examples", "Examples")] if content["examples"] else []) + [("run", "What was run")]


def _absent(chapter: Chapter, content: Mapping[str, Any]) -> list[str]:
    """One quiet line for each thing a reader may miss."""
    lines = []
    unscored = [entry.label for entry in chapter.entries if not entry.scores]
    if unscored:
        lines.append(f"No test scores yet: {', '.join(unscored)}.")
    untold = [entry.label for entry in chapter.entries if not entry.histories]
    if untold:
        lines.append(f"No training history found: {', '.join(untold)}.")
    if not content["examples"]:
        lines.append("No example images were saved with these runs.")
    return lines


def _example_set(run: Run, identity: str) -> dict[str, Any]:
    examples = run.examples
    assert examples is not None  # the caller asked
    labels = {entry.method: entry.label for entry in run.entries}
    colours = {region: REGION_COLOURS[index % len(REGION_COLOURS)] for index, region in enumerate(examples.regions)}
    return {
        "rule": examples.rule,
        "regions": [{"name": region, "colour": colour} for region, colour in colours.items()],
        "cases": [
            _example(item, f"{identity}-example-{number}", colours, labels)
            for number, item in enumerate(examples.items)
        ],
    }


def _example(item: Example, identity: str, colours: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    shots = []
    for method, answer in item.methods.items():
        scores = ", ".join(f"{region} {dice(answer.dice.get(region))}" for region in colours)
        shots.append(
            {
                "label": labels.get(method, method),
                "dice": scores,
                "model": answer.chosen if answer.chosen not in (None, "", "global") else None,
                "alt": f"{item.image} of {item.site} by {method}: Dice {scores}",
                "guesses": [
                    {"colour": colour, "data": answer.paths[region]}
                    for region, colour in colours.items()
                    if answer.paths.get(region)
                ],
            }
        )
    return {
        "id": identity,
        "site": item.site,
        "image": item.image,
        "place": item.place,
        "picture": item.picture,
        "width": item.size[0],
        "height": item.size[1],
        "shots": shots,
        "truth": [{"data": item.truth[region]} for region in colours if item.truth.get(region)],
    }


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "method"
