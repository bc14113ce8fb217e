"""A hospital outside the federation: every way of predicting that it could choose, side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fedsuper.evaluation.run_files.records import read_outside
from fedsuper.report.chapters import Chapter
from fedsuper.report.markup import Cell, Row, join, note, table
from fedsuper.report.numbers import dice, signed
from fedsuper.report.sections.base import Look, Section

NEEDS_LABELS = ("oracle", "average")  # and a single site's model: nobody could know which to take
FROM_IMAGES = ("global-stats", "tent", "ttt", "route")  # adapt themselves to the hospital's unlabeled images
FEW_LABELS = re.compile(r"[0-9]+ labels")


def build(chapter: Chapter, look: Look) -> list[Section]:
    """None where no hospital was kept outside."""
    sections = []
    for number, run in enumerate(chapter.runs):
        found = read_outside(run.folder)
        scored = {mode: entry for mode, entry in found.get("modes", {}).items() if "mean" in entry}
        if not scored:
            continue
        refused = [f"{mode}: {e['problem']}" for mode, e in found["modes"].items() if "problem" in e]
        parts = [note(_words(scored)), table(_head(scored), _groups(scored), "outside-hospital")]
        parts += [note(f"Not offered by this super model: {'; '.join(refused)}.")] if refused else []
        title = "A hospital that took no part"
        sections.append(Section(f"outside{number or ''}", "Outside hospital", title, join(parts)))
    return sections


def chosen_without_labels(mode: str) -> bool:
    """Whether a hospital could have chosen it."""
    return mode not in NEEDS_LABELS and not mode.startswith("site:") and not FEW_LABELS.fullmatch(mode)


def _needs(mode: str) -> int:
    """What a row asks of the hospital: 0 nothing, 1 unlabeled images, 2 a few labels, 3 more than it can know."""
    if FEW_LABELS.fullmatch(mode):
        return 2
    return 3 if not chosen_without_labels(mode) else 1 if mode in FROM_IMAGES else 0


def _words(scored: Mapping[str, Mapping[str, Any]]) -> str:
    open_to_all = {mode: entry["mean"] for mode, entry in scored.items() if chosen_without_labels(mode)}
    best = max(open_to_all, key=lambda mode: float(open_to_all[mode]))
    images = next(iter(scored.values()))["n"]
    text = f"{images:.0f} images. Highest of what it could choose without a label: {best}, "
    text += f"Dice {dice(open_to_all[best])}"
    if "global" in scored and best != "global":
        text += f" (global model {dice(scored['global']['mean'])})"
    if "oracle" in scored:
        text += f"; the best model of each image, known only from its label, reaches {dice(scored['oracle']['mean'])}"
    labeled = [f"{dice(entry['mean'])} with {mode}" for mode, entry in scored.items() if FEW_LABELS.fullmatch(mode)]
    if labeled:
        text += f". A model of its own (fedsuper adapt) reaches {', '.join(labeled)}; those images are not scored"
    return f"{text}."


def _head(scored: Mapping[str, Mapping[str, Any]]) -> list[Cell | str]:
    over = next((entry["gain"]["over"] for entry in scored.values() if "gain" in entry), "")
    gain: list[Cell | str] = [f"Gain over {over}"] if over else []
    return ["Mode", Cell("Dice", "95% interval"), *gain, Cell("Seconds", "an image"), "What it takes"]


def _groups(scored: Mapping[str, Mapping[str, Any]]) -> list[list[Row]]:
    """By what a hospital has to bring: nothing, unlabeled images, a few labels; then what it could not know."""
    rows: list[list[Row]] = [[], [], [], []]
    gains = any("gain" in entry for entry in scored.values())
    for mode, entry in scored.items():
        cells: list[Cell | str] = [Cell(dice(entry["mean"]), f"{dice(entry['ci95'][0])} to {dice(entry['ci95'][1])}")]
        gain = entry.get("gain")
        if gain:
            low, high = gain["ci95"]
            kind = "better" if low > 0 else "worse" if high < 0 else ""
            cells.append(Cell(signed(gain["mean"]), f"{signed(low)} to {signed(high)}", kind=kind))
        elif gains:
            cells.append("–")
        cells.append(f"{entry['seconds_per_image']:.2f}")
        needs = _needs(mode)
        brought = ("no image", "unlabeled images", "labels", "known only from all labels")[needs]
        cells.append(brought)
        rows[needs].append(Row(mode, cells, kind="reference" if needs == 3 else ""))
    return [group for group in rows if group]
