"""The super model: what a federation hands over, and the rule that picks a model for an image."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from fedsuper.core.state import State

GLOBAL = "global"


@dataclass
class SuperModel:
    """A global model, a personalized model per site and a selector; any of the three may be absent.

    `sites` is the label order: the selector's output k belongs to sites[k]. `mode` is how this method predicts
    when nothing else is asked for: `global`, `own` (each site its own model), `select` (FedSM's gate),
    `select-all` (FedSM-extra: argmax over global and sites), `mix` (probability-weighted ensemble).
    `extras` are further weights that a mode needs, by name (test-time training's rotation head).
    `manifest` is plain JSON: study, task, preprocessing, gamma and its curve, metrics, provenance.
    """

    sites: list[str]
    global_model: State | None = None
    personal: dict[str, State] = field(default_factory=dict)
    selector: State | None = None
    mode: str = GLOBAL
    manifest: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, State] = field(default_factory=dict)

    def experts(self) -> dict[str, State]:
        """All segmentation models in fixed order: the global one first, then the sites by label."""
        found: dict[str, State] = {} if self.global_model is None else {GLOBAL: self.global_model}
        return found | {site: self.personal[site] for site in self.sites if site in self.personal}


def gate(probabilities: torch.Tensor, gamma: float) -> torch.Tensor:
    """FedSM, Algorithm 2: the index of the chosen site per image, or -1 for the global model.

    A site's model is used only if max_k q_k > gamma (strictly), so gamma = 1 is always the global model, even
    where the softmax saturates at exactly 1, and gamma = 0 never is.
    """
    best, index = probabilities.max(dim=-1)
    return torch.where(best > gamma, index, torch.full_like(index, -1))
