"""What the server knows between rounds: models, labels, the best so far, the history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

import torch

from fedsuper.config import Study
from fedsuper.core.aggregate import weighted_mean
from fedsuper.core.robust import CENTERS
from fedsuper.core.state import Models, State, room_like
from fedsuper.data.task import Task

# The first phase of every method: the rounds of the study.
TRAINING = "training"


@dataclass
class Update:
    """What a site sends after a round: models by role, its sample count and its metrics."""

    models: Models
    samples: int
    metrics: dict[str, float] = field(default_factory=dict)


class Best(TypedDict):
    """Validation score and round of the model that would be handed over under a key."""

    score: float
    round: float


class HistoryEntry(TypedDict):
    """One round as the server saw it: every site's metrics, who was missing, the scores by role and site so far."""

    round: int
    sites: dict[str, dict[str, float]]
    missing: list[str]
    scores: dict[str, dict[str, float]]


@dataclass
class Server:
    """The server's state; everything in it survives in a checkpoint.

    `sites` is the selector's label order. `models` holds shared roles under their name and per-site ones as
    `role/site`. `best` remembers, per key, score and round of the model in `best_models`: the model that will be
    handed over, chosen on validation data only. `accepted` is the last round in which a site's update was counted.
    `carry` is what the last messages left out where they are sent in 16 bits (`wire`).
    """

    study: Study
    task: Task
    sites: list[str]
    samples: dict[str, int]
    round: int = 0
    phase: str = TRAINING
    phase_start: int = 0
    models: Models = field(default_factory=dict)
    best_models: Models = field(default_factory=dict)
    carry: Models = field(default_factory=dict)
    best: dict[str, Best] = field(default_factory=dict)
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    history: list[HistoryEntry] = field(default_factory=list)
    accepted: dict[str, int] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def phase_round(self) -> int:
        """Rounds done in the present phase."""
        return self.round - self.phase_start

    def label(self, site: str) -> int:
        """The selector's class of a site."""
        return self.sites.index(site)

    def deployed(self, key: str) -> State | None:
        """The best model under this key on validation data, else the latest."""
        return self.best_models.get(key, self.models.get(key))

    def note_score(self, key: str, score: float, state: State) -> None:
        """Keep `state` if it is the best under `key` so far; of equals the later one."""
        if key not in self.best or score >= self.best[key]["score"]:
            self.best[key] = {"score": score, "round": float(self.round)}
            self.best_models[key] = {name: room_like(tensor).copy_(tensor.detach()) for name, tensor in state.items()}

    def values_to_json(self) -> dict[str, Any]:
        """Everything but tensors."""
        return {
            "study": self.study.to_json(), "task": self.task.to_json(), "sites": self.sites, "samples": self.samples,
            "round": self.round,
            "phase": self.phase, "phase_start": self.phase_start,
            "best": self.best, "scores": self.scores, "history": self.history,
            "accepted": self.accepted, "values": self.values,
        }


def average(updates: dict[str, Update], role: str, uniform: bool = False, robust: str = "none") -> State | None:
    """sum_k p_k of a role's uploads, p_k = n_k / sum n or 1/K, over the sites that sent one; None if nobody did.

    Sites are added in the order of `updates`, which is label order, so every engine gets the same bits. With `robust`
    `median` or `trimmed` (`core.robust`) every site has one voice, whatever number of samples it claims.
    """
    present = {site: update for site, update in updates.items() if role in update.models}
    if not present:
        return None
    if robust in CENTERS:
        return CENTERS[robust]([update.models[role] for update in present.values()])
    weights = [1.0 if uniform else float(update.samples) for update in present.values()]
    return weighted_mean([update.models[role] for update in present.values()], weights, list(present))


def zeros_like(state: State) -> State:
    """The zero vector in the space of `state`'s floating entries."""
    return {name: torch.zeros_like(tensor) for name, tensor in state.items() if tensor.is_floating_point()}
