"""Boundaries: HD95, average surface distance and surface Dice of every method, averaged over sites."""

from __future__ import annotations

from typing import Any

from fedsuper.report.chapters import Chapter
from fedsuper.report.markup import Cell, Row, join, note, table
from fedsuper.report.sections.base import Look, Section

UNITS = {"mm": "millimeters", "px": "pixels of the image's own grid"}


def build(chapter: Chapter, look: Look) -> list[Section]:
    """A table for each region; none where distances were not scored or have no common unit."""
    found: dict[str, dict[str, Any]] = {
        entry.label: entry.scores["boundaries"]
        for entry in chapter.comparable
        if "client_avg" in entry.scores.get("boundaries", {})
    }
    units = {boundaries["unit"] for boundaries in found.values()}
    if len(units) != 1:
        return []
    (unit,) = units
    tolerance = next(iter(found.values()))["tolerance"][unit]
    words = f"{tolerance:g} mm" if unit == "mm" else str(tolerance)
    parts = [
        note(
            f"Distances in {UNITS[unit]}, averaged over a site's images, then over sites; lower is better. HD95: 95th "
            "percentile of the distance between boundaries; ASSD: its mean. Surface Dice: share of the boundaries "
            f"that lie within {words} of each other. If one of two masks is empty the distance is the image's diagonal."
        )
    ]
    for region in chapter.regions:
        head: list[Cell | str] = [region, f"HD95 ({unit})", f"ASSD ({unit})", "Surface Dice"]
        rows = [
            Row(label, _cells(boundaries["client_avg"][region]), look.colors[label])
            for label, boundaries in found.items()
        ]
        parts.append(table(head, [rows], f"boundaries-{region}"))
    return [Section("boundaries", "Boundaries", "How far off are the boundaries?", join(parts))]


def _cells(means: dict[str, float]) -> list[Cell | str]:
    return [f"{means['hd95']:.2f}", f"{means['assd']:.2f}", f"{means['surface_dice']:.3f}"]
