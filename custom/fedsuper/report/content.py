"""What the page says of a chapter, section by section; parts that its runs do not have are None or empty."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fedsuper.report.chapters import Chapter
from fedsuper.report.headline import facts_of, lead_of, title_of
from fedsuper.report.overlays import Example, example_figure
from fedsuper.report.paired import statistics_of
from fedsuper.report.pictures import GLOBAL, Picture, dots_picture, matrix_picture, training_picture, unseen_picture
from fedsuper.report.provenance import provenance_of
from fedsuper.report.reading import Entry, Run
from fedsuper.report.results import dice, results_table
from fedsuper.report.selectors import selector_pictures
from fedsuper.report.style import REGION_COLOURS, colours_of

# Ways of predicting in which an image is given to one of several models.
CHOOSING_MODES = ("own", "select", "select-all")


def describe(chapter: Chapter, slug: str, prefix: str | None = None) -> dict[str, Any]:
    """What the template shows of a chapter; figures are named with `prefix`."""
    prefix = f"{slug}-" if prefix is None else prefix
    colours = colours_of({entry.label: entry.method for entry in chapter.entries})
    shown = [run for run in chapter.runs if run.examples and run.examples.items]
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
        "unseen": unseen_picture(chapter, prefix),
        "unseen_rows": [(s.site, dice(s.at_zero), dice(s.at_validated), dice(s.at_one)) for s in chapter.unseen],
        "selectors": _selectors(chapter, colours, prefix),
        "examples": [_example_set(run, f"{prefix}{number}") for number, run in enumerate(shown)],
        "provenance": provenance_of(chapter),
    }
    return content | {"contents": _contents(content), "absent": _absent(chapter, content)}


def pictures_of(chapter: Chapter, prefix: str) -> list[Picture]:
    """All of a chapter's figures, the example overlays included."""
    content = describe(chapter, prefix.rstrip("-"), prefix)
    found = [content["dots"], content["training"], content["matrix"], content["unseen"]]
    found += [picture for selector in content["selectors"] for picture in selector["pictures"]]
    for number, run in enumerate(run for run in chapter.runs if run.examples and run.examples.items):
        found.append(_example_picture(run, f"{prefix}examples{number or ''}"))
    return [picture for picture in found if picture is not None]


def _example_picture(run: Run, name: str) -> Picture:
    """One example a site, those at the first rank of the rule."""
    assert run.examples is not None  # the caller asked
    items = [item for item in run.examples.items if item.place == run.examples.items[0].place]
    labels = {entry.method: entry.label for entry in run.entries}
    methods = {method: labels.get(method, method) for item in items for method in item.methods}
    return Picture(name, example_figure(items, run.examples.regions, methods), run.examples.rule)


def _selectors(chapter: Chapter, colours: Mapping[str, str], prefix: str) -> list[dict[str, Any]]:
    sections: list[dict[str, Any]] = []
    taken: set[str] = set()
    for number, entry in enumerate(chapter.entries):
        slug = re.sub(r"[^a-z0-9]+", "-", entry.label.lower()).strip("-") or "method"
        slug = f"{slug}-{number}" if slug in taken else slug
        taken.add(slug)
        pictures = selector_pictures(entry, colours[entry.label], f"{prefix}{slug}-")
        if pictures:
            sections.append({"label": entry.label, "anchor": f"selector-{slug}", "pictures": pictures})
    return sections


def _contents(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    names = [
        ("table", "results", "Results"),
        ("statistics", "statistics", "Significance"),
        ("training", "training", "Training"),
        ("matrix", "matrix", "Site by model"),
        ("unseen", "unseen", "Unseen sites"),
    ]
    found = [(anchor, name) for key, anchor, name in names if content[key]]
    found += [(selector["anchor"], f"Selector of {selector['label']}") for selector in content["selectors"]]
    return found + ([("examples", "Examples")] if content["examples"] else []) + [("run", "What was run")]


def _absent(chapter: Chapter, content: Mapping[str, Any]) -> list[str]:
    """One quiet line for each thing a reader may miss."""
    lines = []
    unscored = [entry.label for entry in chapter.entries if not entry.scores]
    if unscored:
        lines.append(f"No test scores yet: {', '.join(unscored)}.")
    untold = [entry.label for entry in chapter.entries if not entry.histories]
    if untold:
        which = "" if len(untold) == len(chapter.entries) else f": {', '.join(untold)}"
        lines.append(f"No training history found{which}.")
    if not content["examples"]:
        lines.append("No example images were saved with these runs.")
    return lines


def _example_set(run: Run, identity: str) -> dict[str, Any]:
    examples = run.examples
    assert examples is not None  # the caller asked
    entries = {entry.method: entry for entry in run.entries}
    groups: dict[str, list[dict[str, Any]]] = {}
    colours = {region: REGION_COLOURS[index % len(REGION_COLOURS)] for index, region in enumerate(examples.regions)}
    for number, item in enumerate(examples.items):
        groups.setdefault(item.place, []).append(_example(item, f"{identity}-example-{number}", colours, entries))
    return {
        "rule": examples.rule,
        "regions": [{"name": region, "colour": colour} for region, colour in colours.items()],
        "groups": [
            {"title": f"{place[:1].upper()}{place[1:]} of every site", "cases": cases}
            for place, cases in groups.items()
        ],
    }


def _example(item: Example, identity: str, colours: Mapping[str, str], entries: Mapping[str, Entry]) -> dict[str, Any]:
    shots = []
    for method, answer in item.methods.items():
        entry = entries.get(method)
        scores = ", ".join(f"{region} {dice(answer.dice.get(region))}" for region in colours)
        shots.append(
            {
                "label": entry.label if entry else method,
                "dice": scores,
                "model": _whose(answer.chosen) if entry and entry.manifest.get("mode") in CHOOSING_MODES else "",
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


def _whose(model: str | None) -> str:
    return "" if not model else "by the global model" if model == GLOBAL else f"by {model}’s model"
