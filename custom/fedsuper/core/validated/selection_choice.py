"""Which selector and which gate: one rule for all studies, by validation Dice and how sure it is.

An option is a selector (`trained`, `statistics` or `both`: the mean of their probabilities) with a gate (`threshold`,
`expected-dice`). Every site tells the mean Dice of each option over its validation patients and their covariance. The
option that is best over all sites wins, unless one that comes before it in the order of preference is within an error
of it (`candidate_choice.common_choice`): a handful of images sees leads of a thousandth in every direction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedsuper.core.validated.candidate_choice import Figures, common_choice, pooled

AUTO = "auto"
AS_IT_IS = "as-it-is"  # the one option of a super model that chooses no model by image
TRAINED, STATISTICS, BOTH = "trained", "statistics", "both"
THRESHOLD, EXPECTED_DICE = "threshold", "expected-dice"
# In this order, which development federations gave (docs/results/selection.md): the selector that names most images
# rightly first, and with each the gate that counts the cost.
PREFERRED_KINDS, PREFERRED_GATES = (STATISTICS, BOTH, TRAINED), (EXPECTED_DICE, THRESHOLD)
TIE = 1.0  # errors within which the option that comes first is taken


@dataclass(frozen=True)
class Selection:
    """A selector's kind and a gate."""

    kind: str
    gate: str

    @property
    def name(self) -> str:
        """As messages and manifests call it."""
        return f"{self.kind}/{self.gate}"

    @classmethod
    def named(cls, name: str) -> Selection:
        """The inverse of `name`."""
        kind, _, gate = name.partition("/")
        return cls(kind, gate)


def kinds_of(kind: str) -> list[str]:
    """The selectors that a study's `selector.kind` leaves to choose from."""
    return [TRAINED, STATISTICS, BOTH] if kind == AUTO else [kind]


def options_of(kind: str, gate: str) -> list[Selection]:
    """Every option of a study's `selector.kind` and `selector.gate`, in the order of preference."""
    kinds = [each for each in PREFERRED_KINDS if each in kinds_of(kind)]
    return [Selection(each, one) for each in kinds for one in PREFERRED_GATES if gate in (one, AUTO)]


@dataclass(frozen=True)
class Verdict:
    """The option taken, every option's Dice, the best of them and by how much it leads the one taken, give or take."""

    taken: str
    dice: Mapping[str, float]
    best: str
    lead: float
    error: float


def choose_option(told: Mapping[str, Mapping[str, Any]]) -> Verdict:
    """The option to take; a site's answer has `patients` and, by option, its `dice` and its `spread` with every option.

    An option that not every site could measure is no choice.
    """
    shared = set.intersection(*(set(answer["options"]) for answer in told.values()))
    names = [name for name in (AS_IT_IS, *(each.name for each in options_of(AUTO, AUTO))) if name in shared]
    figures = [_figures(answer, names) for answer in told.values()]
    taken, best = common_choice(figures, TIE)
    ahead = pooled(figures, best, taken)
    dice = {name: math.fsum(each.mean[at] for each in figures) / len(figures) for at, name in enumerate(names)}
    return Verdict(names[taken], dice, names[best], ahead.mean, ahead.error)


def _figures(answer: Mapping[str, Any], names: Sequence[str]) -> Figures:
    options = answer["options"]
    return Figures([options[name]["dice"] for name in names],
                   [[options[name]["spread"][other] for other in names] for name in names], answer["patients"])
