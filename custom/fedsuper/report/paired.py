"""Is the leading method really better? Paired comparisons on the images that both methods scored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from fedsuper.report.chapters import Chapter
from fedsuper.report.headline import leader, signed
from fedsuper.report.reading import Entry

CLEAR = 0.05


@dataclass(frozen=True)
class ComparisonRow:
    """The leader against one other method."""

    label: str
    colour: str
    difference: str
    interval: str
    cases: str
    p: str
    verdict: str


@dataclass(frozen=True)
class Statistics:
    """All comparisons of one chapter's leader."""

    subject: str
    rows: list[ComparisonRow]
    note: str = (
        "Difference of mean Dice over the same test images, seeds averaged. The interval is a bootstrap over patients "
        "within sites; p is Wilcoxon's signed-rank test over patients, corrected for all pairs of methods (Holm)."
    )


def statistics_of(chapter: Chapter, colours: Mapping[str, str]) -> Statistics | None:
    """The leader against every other method; None where there is nothing to compare."""
    best = leader(chapter.comparable)
    if best is None or len(chapter.scored) < 2:
        return None
    rows = []
    for pair in _pairs(chapter):
        if best.label not in (pair["a"], pair["b"]):
            continue
        sign = 1 if pair["a"] == best.label else -1
        other = pair["b"] if sign == 1 else pair["a"]
        low, high = sorted(sign * bound for bound in pair["ci95"])
        difference = sign * pair["difference"]
        rows.append(
            (
                difference,
                ComparisonRow(
                    other,
                    colours[other],
                    signed(difference),
                    f"{signed(low)} to {signed(high)}",
                    f"{pair['cases']:.0f}",
                    "< 0.001" if pair["p_holm"] < 0.001 else f"{pair['p_holm']:.3f}",
                    _verdict(difference, pair["p_holm"]),
                ),
            )
        )
    return Statistics(best.label, [row for _, row in sorted(rows, key=lambda pair: -pair[0])]) if rows else None


def _verdict(difference: float, p: float) -> str:
    return "" if p >= CLEAR else "better" if difference > 0 else "worse"


def _pairs(chapter: Chapter) -> list[dict[str, Any]]:
    """One run: the comparisons it wrote. Several runs: the same ones made across them."""
    if len(chapter.runs) == 1:
        labels = {entry.method: entry.label for entry in chapter.scored}
        written = chapter.runs[0].metrics.get("paired", [])
        return [
            pair | {"a": labels[pair["a"]], "b": labels[pair["b"]]}
            for pair in written
            if {pair["a"], pair["b"]} <= set(labels)
        ]
    from fedsuper.evaluation.statistics import holm, paired

    scores = {entry.label: _image_means(entry) for entry in chapter.scored if entry.images}
    shared = [(a, b) for a, b in combinations(scores, 2) if scores[a].keys() & scores[b].keys()]
    tests = [paired(scores[a], scores[b]) for a, b in shared]
    return [
        {
            "a": a,
            "b": b,
            "difference": test.difference.mean,
            "ci95": [test.difference.low, test.difference.high],
            "cases": test.cases,
            "p_holm": p,
        }
        for (a, b), test, p in zip(shared, tests, holm([test.p for test in tests]), strict=True)
    ]


def _image_means(entry: Entry) -> dict[tuple[str, str, str], float]:
    collected: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in entry.images:
        collected[row.site, row.case, row.image].append(row.mean)
    return {key: sum(values) / len(values) for key, values in collected.items()}
