"""Clinical measurements read off the masks, and how far they are from those of the labels."""

from __future__ import annotations

from fedsuper.report.chapters import Chapter
from fedsuper.report.markup import Cell, Row, join, note, table
from fedsuper.report.sections.base import Look, Section

UNITS = {"_volume_ml": "ml", "_area_mm2": "mm²", "_area_px": "pixels"}
NOTE = (
    "Read off every predicted mask and off its label. Error: mean of the absolute differences; bias: mean difference, "
    "predicted minus true, ± its standard deviation over images. Every image is in measurements.csv."
)


def build(chapter: Chapter, look: Look) -> list[Section]:
    """A table for each measurement; none where nothing was measured."""
    found = {e.label: e.scores["measurements"] for e in chapter.comparable if e.scores.get("measurements")}
    parts = [note(NOTE)]
    for name in dict.fromkeys(name for by_name in found.values() for name in by_name):
        rows = [
            Row(label, _cells(by_name[name]), look.colors[label]) for label, by_name in found.items() if name in by_name
        ]
        head: list[Cell | str] = [spoken(name), "Error", "Bias", "Images", "Undefined"]
        parts.append(table(head, [rows], name.replace("_", "-")))
    title = "What a clinician would read off"
    return [Section("measurements", "Measurements", title, join(parts))] if len(parts) > 1 else []


def spoken(name: str) -> str:
    """A measurement's column name in words, with its unit."""
    ending = next((ending for ending in UNITS if name.endswith(ending)), "")
    words = name.removesuffix(ending) + ending[: ending.rfind("_")] if ending else name
    text = words.replace("_", " ")
    return f"{text[:1].upper()}{text[1:]}" + (f" ({UNITS[ending]})" if ending else "")


def _cells(errors: dict[str, float]) -> list[Cell | str]:
    digits = 3 if errors["mean_absolute_error"] < 10 else 1
    bias = f"{errors['bias']:+.{digits}f}".replace("-", "−")
    error = f"{errors['mean_absolute_error']:.{digits}f}"
    return [error, Cell(bias, f"± {errors['std']:.{digits}f}"), f"{errors['n']:.0f}", f"{errors['undefined']:.0f}"]
