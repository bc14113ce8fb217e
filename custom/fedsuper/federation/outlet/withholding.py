"""Figures over too few patients stay at the site: a mean over one patient is that patient's.

`minimum` is the larger of what the site and the study want. On one machine it is 1, because nothing leaves it; a site
in production withholds below five unless its site file says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fedsuper.federation.site_data import SiteFacts
from fedsuper.methods.protocol.site_round import SiteRound


@dataclass(frozen=True)
class Withholding:
    """What may be told of so many patients; `noised` studies tell no figure that has no noise."""

    minimum: int = 1
    noised: bool = False

    def figures(self, cases: Iterable[str]) -> bool:
        """Whether scores and losses over these patients may leave."""
        return not self.noised and self.enough(cases)

    def enough(self, cases: Iterable[str]) -> bool:
        """Whether they are as many as are needed."""
        return len(set(cases)) >= self.minimum

    def count(self, number: int) -> int:
        """A count as it may be told: of a few it is said that there are `minimum`; none is none."""
        return max(number, self.minimum) if number else 0

    def metrics(self, metrics: Mapping[str, float], site: SiteRound) -> dict[str, float]:
        """The round's metrics: losses are means over training images, all others over validation images."""
        over = {"loss": self.figures(site.train.cases)}
        val = self.figures(site.val.cases)
        return {name: value for name, value in metrics.items() if over.get(name.partition("/")[0], val)}

    def facts(self, facts: SiteFacts) -> SiteFacts:
        """What a site tells before round 1, with its small counts raised."""
        printed: dict[str, Any] = dict(facts.fingerprint)
        if self.noised or (printed["cases"] is not None and printed["cases"] < self.minimum):
            printed |= {key: None for key in ("cases", "images", "size", "spacing", "intensity")}
            printed["regions"] = dict.fromkeys(printed["regions"])
        return replace(
            facts,
            samples={part: self.count(number) for part, number in facts.samples.items()},
            changes={kind: self.count(number) for kind, number in facts.changes.items()},
            fingerprint=printed,
        )
