"""What each site was handed, why (its validation Dice), and how often it was used on test images."""

from __future__ import annotations

from fedsuper.report.chapters import Chapter
from fedsuper.report.markup import Cell, Row, details, join, note, table
from fedsuper.report.numbers import dice, whole
from fedsuper.report.runs import Entry
from fedsuper.report.sections.base import Look, Section

NOTE = (
    "A site gets the model of the round in which its validation Dice was highest; where sites choose (personal: auto), "
    "the one of global and personalized model, as they are or fine-tuned at home, that serves all sites best, unless "
    "another is clearly better on its own validation images. Used: share of the site's test "
    "images that this model segmented; the others went to the global model or to another site's."
)


def build(chapter: Chapter, look: Look) -> list[Section]:
    """A table for each method with personalized models."""
    found = [(entry.label, rows) for entry in chapter.entries if (rows := _rows(entry))]
    if not found:
        return []
    head: list[Cell | str] = ["Site", "Taken", "Validation Dice", "From round", "Used"]
    tables = [(label, table(head, [rows], f"handed-over-{label}")) for label, rows in found]
    parts = [note(NOTE), *(details(label, body, open_=not place) for place, (label, body) in enumerate(tables))]
    return [Section("handed", "Handed over", "What each site was handed", join(parts))]


def _rows(entry: Entry) -> list[Row]:
    kept = (entry.manifest.get("metrics") or {}).get("validation") or {}
    personal = {key.partition("/")[2]: value for key, value in kept.items() if key.startswith("personal/")}
    shares = entry.scores.get("selected", {})
    rows = []
    for site, value in personal.items():
        used = shares.get(site, {}).get(site) if site in shares else None
        share = "–" if site not in shares else f"{(used or 0.0):.0%}"
        rows.append(Row(site, [_taken(entry, site), dice(float(value["score"])), whole(value["round"]), share]))
    if rows and "global" in kept:
        shared = kept["global"]
        rows.append(Row("all sites", ["global model", dice(float(shared["score"])), whole(shared["round"]), "–"]))
    return rows


def _taken(entry: Entry, site: str) -> Cell:
    """What the site took, with the Dice of all it could take; why is its tooltip."""
    choice = entry.manifest.get("chosen", {}).get(site)
    if not choice:
        return Cell("personalized model")
    scores = ", ".join(f"{name} {dice(value)}" for name, value in choice["dice"].items())
    return Cell(f"{choice['taken']} model", scores, choice.get("why", ""))
