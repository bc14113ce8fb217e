"""Which models each site is handed over: the global one and its own first, then those it could confuse with its own.

With K sites and every model at every site a hand-over grows with K^2. What is measured there needs less: images of a
site are given to its own model, to the global one, or to that of a site that looks alike. `federation.handover` bounds
how many models a site gets; up to that many all sites get all. The others are unknown in the site's row of expected
Dice, and a site fetches them when it is asked to predict with them (`federation/serving`, by digest).
"""

from __future__ import annotations

from collections.abc import Sequence

from fedsuper.core.discriminant import nearest_classes
from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.mode import GLOBAL, OWN, SELECT
from fedsuper.core.state import Models
from fedsuper.core.supermodel import PERSONAL, SuperModel

ALL, ONLY_OWN = "all", "own"
FEWEST = 2  # the global model and the site's own


class Shares:
    """What every site of a super model has been sent of it so far.

    Modes that mix or weigh all models at once need them all.
    """

    def __init__(self, super_model: SuperModel, handover: int | str) -> None:
        models = super_model.to_models()
        self.sites = super_model.sites
        self.most = {ALL: len(models), ONLY_OWN: FEWEST}.get(str(handover)) or int(handover)
        self.personal = {key: state for key, state in models.items() if key.startswith(PERSONAL)}
        self.others = {key: state for key, state in models.items() if key not in self.personal}
        self.first_expert = [GLOBAL] if GLOBAL in models else []
        whole = super_model.mode not in (SELECT, OWN, GLOBAL)
        self.bounded = not whole and len(self.first_expert) + len(self.personal) > self.most
        self._held: dict[str, list[str]] = {}

    def first(self, site: str) -> Models:
        """With the hand-over: everything, or where that is too much the global model, the selector and its own.

        Where there is no global model the first site's stands in for it: image features are read with it.
        """
        chosen = list(self.personal)
        if self.bounded:
            firsts = [PERSONAL + site] if self.first_expert else [*chosen[:1], PERSONAL + site]
            chosen = [key for key in chosen if key in firsts]
        self._held[site] = chosen
        return self.others | {key: self.personal[key] for key in chosen}

    def next(self, site: str, sums: Sequence[FeatureSums] | None) -> Models:
        """Then, of those that the site does not hold, the ones whose images are nearest to its own, up to the bound."""
        held = self._held[site]
        free = max(0, self.most - len(self.first_expert) - len(held))
        order = nearest_classes(sums, self.sites.index(site), len(self.sites))
        fresh = [PERSONAL + self.sites[label] for label in order]
        fresh = [key for key in fresh if key in self.personal and key not in held][:free]
        self._held[site] = [*held, *fresh]
        return {key: self.personal[key] for key in fresh}

    def elsewhere(self, site: str) -> list[str]:
        """The sites whose models exist and are not among a site's own share."""
        held = self.experts(site)
        return [name for name in self.sites if PERSONAL + name in self.personal and name not in held]

    def experts(self, site: str) -> frozenset[str]:
        """The segmentation models that a site can have measured; all of them for one that was sent nothing."""
        held = self._held.get(site, list(self.personal))
        return frozenset([*self.first_expert, *(key.removeprefix(PERSONAL) for key in held)])
