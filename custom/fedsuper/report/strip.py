"""The strip of hospitals on the first screen: a verdict and an interval for each."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from fedsuper.evaluation.comparisons import BETTER, EQUAL, FEW, OPEN, WORSE, Difference
from fedsuper.report.finding import Hospital, Verdict
from fedsuper.report.markup import join
from fedsuper.report.numbers import dice, signed

# What a verdict is called, and its sign for readers who cannot tell the colors apart.
WORDS = {
    BETTER: ("▲", "above"),
    WORSE: ("▼", "below"),
    OPEN: ("●", "no clear difference to"),
    EQUAL: ("=", "the same as"),
    FEW: ("○", "too few to tell from"),
}


def strip(hospitals: Sequence[Hospital]) -> Markup:
    """A card a hospital; all intervals share one scale."""
    if not hospitals:
        return Markup()
    ends = [abs(end) for h in hospitals for v in h.verdicts for end in (v.difference.low, v.difference.high)]
    reach = max([*ends, 0.001])
    cards = join(_card(hospital, reach) for hospital in hospitals)
    return Markup('<ul class="strip-of-hospitals" aria-label="Each hospital">{}</ul>').format(cards)


def _card(hospital: Hospital, reach: float) -> Markup:
    cases = max((verdict.difference.cases for verdict in hospital.verdicts), default=0)
    patients = f"{cases} test patient{'s' if cases != 1 else ''}"
    head = Markup("<h3>{} <small>{}</small><b>{}</b></h3>").format(hospital.site, patients, dice(hospital.dice))
    lines = join(_line(verdict, reach) for verdict in hospital.verdicts)
    return Markup("<li>{}{}</li>").format(head, lines)


def _line(verdict: Verdict, reach: float) -> Markup:
    found = verdict.difference
    sign, words = WORDS[found.verdict]
    text = '<p class="{}"><span><i aria-hidden="true">{}</i>{} {}</span> <b>{}</b> <small>{} to {}</small>{}</p>'
    return Markup(text).format(
        found.verdict, sign, words, verdict.baseline, signed(found.mean), signed(found.low), signed(found.high),
        _bar(found, reach),
    )  # fmt: skip


def _bar(found: Difference, reach: float) -> Markup:
    """The interval on a line from -reach to +reach, zero in the middle."""
    low, middle, high = (100 + 96 * value / reach for value in (found.low, found.mean, found.high))
    text = (
        '<svg viewBox="0 0 200 12" preserveAspectRatio="none" aria-hidden="true">'
        '<path class="zero" d="M0 6H200M100 1V11"/>'
        '<path class="span" d="M{} 6H{}"/><path class="middle" d="M{} 2V10"/></svg>'
    )
    return Markup(text).format(f"{low:.1f}", f"{high:.1f}", f"{middle:.1f}")
