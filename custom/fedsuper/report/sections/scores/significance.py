"""Is the difference real? Every method against every baseline on the images that both scored."""

from __future__ import annotations

from fedsuper.evaluation.comparisons import CLEAR, FEWEST_CASES, Comparison
from fedsuper.report.chapters import Chapter
from fedsuper.report.finding import spoken
from fedsuper.report.markup import Cell, Row, details, join, note, table
from fedsuper.report.numbers import signed
from fedsuper.report.sections.base import Look, Section

NOTE = (
    "Difference: of the client averages on the images both methods scored, seeds averaged first. Interval: bootstrap "
    "over patients within sites. p: Wilcoxon's signed-rank test over patients, corrected for all comparisons here "
    f"(Holm). Effect: rank-biserial correlation, +1 if higher on every patient. Colored: the interval leaves out zero "
    f"and p is below {CLEAR:g}. A site with fewer than {FEWEST_CASES} patients gets no verdict."
)


def build(chapter: Chapter, look: Look) -> list[Section]:
    """A table for each baseline; none where there is nothing to compare."""
    baselines = list(dict.fromkeys(found.b for found in chapter.comparisons))
    parts = [note(NOTE)]
    for place, baseline in enumerate(baselines):
        found = [one for one in chapter.comparisons if one.b == baseline]
        rows = [_row(one, look) for one in sorted(found, key=lambda one: -one.overall.mean)]
        head: list[Cell | str] = ["Method", "Difference", "95% interval", "Higher at", "Effect", "p (Holm)", "Patients"]
        if any(one.spread is not None for one in found):
            head.append("By seed")
        body = table(head, [rows], f"against-{baseline}")
        parts.append(details(f"Against {spoken(chapter, baseline)}", body, open_=place == 0))
    return [Section("statistics", "Significance", "Is the difference real?", join(parts))] if baselines else []


def _row(found: Comparison, look: Look) -> Row:
    overall = found.overall
    cells: list[Cell | str] = [
        Cell(signed(overall.mean), kind=found.verdict),
        f"{signed(overall.low)} to {signed(overall.high)}",
        f"{found.sites(1)} of {len(found.per_site)} sites",
        f"{found.effect:+.2f}".replace("-", "−"),
        "< 0.001" if found.p_holm < 0.001 else f"{found.p_holm:.3f}",
        str(overall.cases),
    ]
    if found.spread is not None:
        agreeing = sum(value * overall.mean > 0 for value in found.per_seed.values())
        cells.append(Cell(f"± {found.spread:.3f}", f"{agreeing} of {len(found.per_seed)} seeds agree"))
    return Row(found.a, cells, look.colors[found.a])
