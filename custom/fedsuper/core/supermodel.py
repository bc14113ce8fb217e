"""The super model: what a federation hands over, and the rule that picks a model for an image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fedsuper.core.mode import GLOBAL as GLOBAL
from fedsuper.core.state import Models, State

# The names of a super model's parts wherever it is packed: on the wire and on disk. A slash tells a site or an extra
# from the fixed parts, so that a site may bear any name, `global` included.
SELECTOR = "selector"
PERSONAL = "personal/"
EXTRA = "extra/"


@dataclass
class SuperModel:
    """A global model, a personalized model per site and a selector; any of the three may be absent.

    `sites` is the label order: the selector's output k belongs to sites[k]. `mode` is how this method predicts
    when nothing else is asked for, a name of `core/mode.py`.
    `extras` are further weights that a mode needs, by name (test-time training's rotation head).
    `manifest` is plain JSON: study, task, preprocessing, gamma and its curve, metrics, provenance.
    """

    sites: list[str]
    global_model: State | None = None
    personal: Mapping[str, State] = field(default_factory=dict)
    selector: State | None = None
    mode: str = GLOBAL
    manifest: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, State] = field(default_factory=dict)

    def experts(self) -> Mapping[str, State]:
        """All segmentation models in fixed order: the global one first, then the sites by label."""
        return _Experts(self)

    def to_models(self) -> Models:
        """Every part there is under its packed name: `global`, `selector`, `personal/SITE`, `extra/NAME`."""
        fixed = {GLOBAL: self.global_model, SELECTOR: self.selector}
        models = {name: state for name, state in fixed.items() if state is not None}
        models |= {PERSONAL + site: self.personal[site] for site in self.sites if site in self.personal}
        return models | {EXTRA + name: state for name, state in self.extras.items()}

    @classmethod
    def from_models(
        cls, models: Mapping[str, State], sites: Sequence[str], mode: str, manifest: dict[str, Any]
    ) -> SuperModel:
        """The inverse of `to_models`; sites, mode and manifest are not weights and come beside them."""
        return cls(
            sites=list(sites),
            global_model=models.get(GLOBAL),
            personal={site: models[PERSONAL + site] for site in sites if PERSONAL + site in models},
            selector=models.get(SELECTOR),
            mode=mode,
            manifest=manifest,
            extras={name.removeprefix(EXTRA): models[name] for name in models if name.startswith(EXTRA)},
        )

    def __repr__(self) -> str:
        """What it holds, in one line: a notebook must not print the weights."""
        fixed = {GLOBAL: self.global_model, SELECTOR: self.selector}
        parts = [name for name, state in fixed.items() if state is not None] + list(self.extras)
        return f"SuperModel(mode={self.mode!r}, sites={self.sites}, {len(self.personal)} personalized, {parts})"


class _Experts(Mapping[str, State]):
    """A view: a personalized model that stays on disk is not read before it is asked for."""

    def __init__(self, whole: SuperModel) -> None:
        self.whole = whole
        self.names = [] if whole.global_model is None else [GLOBAL]
        self.names += [site for site in whole.sites if site in whole.personal]

    def __getitem__(self, name: str) -> State:
        if name == GLOBAL and self.whole.global_model is not None:
            return self.whole.global_model
        return self.whole.personal[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names


def gate(probabilities: torch.Tensor, gamma: float) -> torch.Tensor:
    """FedSM, Algorithm 2: the index of the chosen site per image, or -1 for the global model.

    A site's model is used only if max_k q_k > gamma (strictly), so gamma = 1 is always the global model, even
    where the softmax saturates at exactly 1, and gamma = 0 never is.
    """
    best, index = probabilities.max(dim=-1)
    return torch.where(best > gamma, index, torch.full_like(index, -1))
