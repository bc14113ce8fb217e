"""The report's first lines: what was trained and what came out, in one sentence with the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedsuper.report.chapters import Chapter
from fedsuper.report.reading import POOLED, Entry
from fedsuper.report.results import dice


@dataclass(frozen=True)
class Part:
    """A piece of the sentence; numbers stand out."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Fact:
    """A number with its name and a remark."""

    name: str
    value: str
    note: str = ""


def leader(entries: Sequence[Entry]) -> Entry | None:
    """The federated method with the highest client average; without one, the best of the rest."""
    federated = [entry for entry in entries if not entry.reference] or list(entries)
    return max(federated, key=lambda entry: entry.scores["client_avg"], default=None)


def title_of(chapter: Chapter) -> str:
    """What the chapter is about."""
    names = [entry.label for entry in chapter.entries]
    methods = f"{names[0]} trained" if len(names) == 1 else f"{len(names)} methods compared"
    count = len(chapter.sites)
    where = f"{count} unseen site" if chapter.unseen else f"{count} site"
    subject = str(chapter.task.get("task") or chapter.dataset)
    return f"{subject[:1].upper()}{subject[1:]}: {methods} at {where}{'s' if count != 1 else ''}"


def lead_of(chapter: Chapter) -> list[Part]:
    """The sentence."""
    best = leader(chapter.comparable)
    what = " and ".join(filter(None, [", ".join(chapter.regions[:-1]), *chapter.regions[-1:]]))
    if best is None:
        names = ", ".join(entry.label for entry in chapter.entries)
        purpose = f" to segment {what}" if what else ""
        return [Part(f"{names} trained at {len(chapter.sites)} sites{purpose}; not scored yet.")]
    parts = [
        Part(f"{best.label} segments {what or 'images'} with a mean Dice of "),
        Part(dice(best.scores["client_avg"]), True),
        Part(f" averaged over {len(best.scores['per_site'])} sites and "),
        Part(dice(best.scores["global"]), True),
        Part(f" over all {best.scores.get('n', 0):.0f} {chapter.images.removesuffix(' of the site left out')}"),
    ]
    others = sorted(
        (e for e in chapter.comparable if not e.reference and e is not best), key=lambda e: -e.scores["client_avg"]
    )
    if others:
        parts += [
            Part(f"; {others[0].label}, the next federated method, reaches "),
            Part(dice(others[0].scores["client_avg"]), True),
        ]
    pooled = next((e for e in chapter.scored if e.method == POOLED and e is not best), None)
    if pooled:
        parts += [Part("; training on the pooled data reaches "), Part(dice(pooled.scores["client_avg"]), True)]
    return [*parts, Part(".")]


def facts_of(chapter: Chapter) -> list[Fact]:
    """The numbers a reader looks for first."""
    best = leader(chapter.comparable)
    if best is None:
        return []
    interval = best.scores.get("ci95", {}).get("client_avg")
    note = f"95% interval {dice(interval[0])}–{dice(interval[1])}" if interval else "mean over sites"
    facts = [Fact(f"{best.label}, client average", dice(best.scores["client_avg"]), note)]
    for method, name in (
        ("fedavg", "against FedAvg"),
        ("centralized", "against pooled training"),
        ("local", "against each site alone"),
    ):
        other = next((e for e in chapter.scored if e.method == method and e is not best), None)
        if other:
            gain = best.scores["client_avg"] - other.scores["client_avg"]
            facts.append(Fact(name, signed(gain), f"{other.label} {dice(other.scores['client_avg'])}"))
    selector = next((e for e in [best, *chapter.scored] if e.scores.get("selector")), None)
    if selector:
        accuracy = selector.scores["selector"]["balanced_accuracy"]
        facts.append(Fact("selector accuracy", dice(accuracy), "balanced, on test images"))
    return facts


def signed(value: float) -> str:
    """A difference with its sign (a true minus)."""
    text = f"{abs(value):.3f}"
    return f"±{text}" if float(text) == 0 else f"{'+' if value > 0 else '−'}{text}"
