"""The gate that counts the cost, for a super model whose sites measured what every expert is worth to them."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any

import torch

from fedsuper.core.expected_dice import expected_dice_gate, shrink_rows, tempered
from fedsuper.core.supermodel import GLOBAL
from fedsuper.core.validated.selection_choice import EXPECTED_DICE, Selection
from fedsuper.inference.predictor import Predictor


class ExpectedDiceGate:
    """argmax_k sum_j q_j U[j, k], U as the manifest has it; images that are nobody's kind go to the global model."""

    def __init__(
        self, utility: Mapping[str, Any], sites: Sequence[str], temperature: float | None = None,
        held: Container[str] | None = None, newcomers: Container[str] = (),
    ) -> None:
        """`held` are the models to choose from, where some of U's are not here.

        Of `newcomers`, sites that joined after training, no other site says what an own model gains: theirs were made
        in another way, and are taken at their word.
        """
        places = sorted(range(len(utility["experts"])), key=lambda place: utility["experts"][place] != GLOBAL)
        self.experts: list[str] = [utility["experts"][place] for place in places]
        self.temperature = float(utility["temperature"]) if temperature is None else temperature
        rows = [utility["dice"].get(site, [0.0] * len(self.experts)) for site in sites]
        images = [utility["images"].get(site, 0) for site in sites]
        known = [[math.nan if row[place] is None else row[place] for place in places] for row in rows]
        own = [self.experts.index(site) if site in self.experts and site not in newcomers else None for site in sites]
        self.table = shrink_rows(torch.tensor(known, dtype=torch.float64), images, own)
        here = [place for place, name in enumerate(self.experts) if held is None or name in held]
        if len(here) < len(self.experts):
            self.experts, self.table = [self.experts[place] for place in here], self.table[:, here]

    @classmethod
    def of(cls, predictor: Predictor, selection: Selection | None = None) -> ExpectedDiceGate | None:
        """None where the threshold is in force, or no site measured U."""
        selection = selection or predictor.selection
        manifest = predictor.super_model.manifest
        utility = manifest.get("utility")
        if selection.gate != EXPECTED_DICE or not utility:
            return None
        own = manifest.get("selectors", {}).get(selection.kind, {}).get("temperature")
        joined = [event["joined"] for event in manifest.get("membership", []) if "joined" in event]
        return cls(utility, predictor.super_model.sites, own, predictor.experts, joined)

    def choose(self, q: torch.Tensor, foreign: torch.Tensor | None = None) -> list[str]:
        """The model of each row of q `[N, sites]`; rows that are `foreign` go to the global model."""
        best = expected_dice_gate(tempered(q, self.temperature), self.table)
        picked = [self.experts[index] for index in best.tolist()]
        if foreign is None or GLOBAL not in self.experts:
            return picked
        return [GLOBAL if away else name for name, away in zip(picked, foreign.tolist(), strict=True)]
