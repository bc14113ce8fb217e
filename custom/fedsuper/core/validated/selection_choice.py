"""Which selector and which gate: one rule for all studies, the best validation Dice.

An option is a selector (`trained`, `statistics` or `both`: the mean of their probabilities) with a gate (`threshold`,
`expected-dice`). Every site tells the summed Dice of each option on its validation images; the mean over sites of the
sites' means decides, and of options that tie the first, which is the paper's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

AUTO = "auto"
AS_IT_IS = "as-it-is"  # the one option of a super model that chooses no model by image
TRAINED, STATISTICS, BOTH = "trained", "statistics", "both"
THRESHOLD, EXPECTED_DICE = "threshold", "expected-dice"
TIE = 1e-4  # of mean Dice: a few pixels of one image


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
    """Every option of a study's `selector.kind` and `selector.gate`, the paper's first."""
    gates = [THRESHOLD, EXPECTED_DICE] if gate == AUTO else [gate]
    return [Selection(each, one) for one in gates for each in kinds_of(kind)]


def choose_option(told: Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, float]]:
    """The best option and every option's Dice; a site's answer has `options` (name to summed Dice) and `images`.

    An option that not every site could measure is no choice.
    """
    shared = [name for name in next(iter(told.values()))["options"]
              if all(name in answer["options"] for answer in told.values())]
    dice = {
        name: math.fsum(answer["options"][name] / answer["images"] for answer in told.values()) / len(told)
        for name in shared
    }
    best = max(dice.values())
    return next(name for name, value in dice.items() if value >= best - TIE), dice
