"""Dice of whole patients, where a patient's images are several files."""

from __future__ import annotations

from fedsuper.report.chapters import Chapter
from fedsuper.report.markup import Row, join, note, table
from fedsuper.report.numbers import dice, whole
from fedsuper.report.sections.base import Look, Section

NOTE = (
    "All images of a patient (cases.csv) scored together, as the slices of a volume are; mean over a site's patients, "
    "then over regions."
)


def build(chapter: Chapter, look: Look) -> list[Section]:
    """None where every image is a patient of its own."""
    rows = []
    for entry in chapter.scored:
        found = entry.scores.get("per_patient")
        if found:
            places = [dice(found["per_site"].get(site, {}).get("mean")) for site in chapter.sites]
            cells = [*places, dice(found["client_avg"]), whole(found["n"])]
            rows.append(Row(entry.label, cells, look.colors[entry.label]))
    if not rows:
        return []
    head = ["Method", *chapter.sites, "Client avg", "Patients"]
    body = join([note(NOTE), table(head, [rows], "patients")])
    return [Section("patients", "Patients", "Whole patients", body)]
