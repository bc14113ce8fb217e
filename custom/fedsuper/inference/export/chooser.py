"""Which model an image gets, as one net: selector and gate together, so that no other tool has to write the rule again.

    q = mean over the image's slices of softmax(f_s(x))         model = gate(q, x)

`model` is a position in `export.json`'s `models`. The gates are the modes' own: FedSM's threshold, the best expected
Dice with foreign images sent to the global model, the likeliest of all models. The parts are those of `inference`
and `core`, traced, not copied.
"""

from __future__ import annotations

import torch
from torch import nn

from fedsuper.core.expected_dice import expected_dice_gate, tempered
from fedsuper.core.mode import GLOBAL, SELECT, SELECT_ALL
from fedsuper.core.supermodel import gate
from fedsuper.core.validated.usual_distance import foreign
from fedsuper.inference.modes.select import gamma_of
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.cost_gate import ExpectedDiceGate
from fedsuper.inference.selection.familiarity import Familiarity

THRESHOLD, EXPECTED_DICE, LIKELIEST = "threshold", "expected-dice", "likeliest"
NO_MODEL = -1  # where the rule asks for the global model and there is none


def gate_name(predictor: Predictor) -> str | None:
    """The rule by which the super model's own mode chooses; None where it chooses nothing."""
    if predictor.super_model.selector is None or predictor.super_model.mode not in (SELECT, SELECT_ALL):
        return None
    if predictor.super_model.mode == SELECT_ALL:
        return LIKELIEST
    return THRESHOLD if ExpectedDiceGate.of(predictor) is None else EXPECTED_DICE


class Chooser(nn.Module):
    """The slices `[Z, C, S, S]` of one image in; q `[classes]`, float64, and the model's position out.

    A super model whose mode chooses nothing (`mix` weighs by q) gives q alone.
    """

    absent: torch.Tensor

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.selector = predictor.selector()
        missing = torch.tensor([name not in predictor.experts for name in predictor.classes])
        self.register_buffer("absent", missing & ~missing.all())
        made: dict[str | None, type[nn.Module]] = {
            THRESHOLD: _Threshold, EXPECTED_DICE: _ExpectedDice, LIKELIEST: _Likeliest
        }
        kind = made.get(gate_name(predictor))
        self.gate = None if kind is None else kind(predictor)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logits: torch.Tensor = self.selector(images).double()
        q = logits.masked_fill(self.absent, -torch.inf).softmax(dim=1).mean(dim=0)
        return (q,) if self.gate is None else (q, self.gate(q[None], images)[0])


class _Threshold(nn.Module):
    """max_k q_k > gamma: that site's model, else the global one."""

    places: torch.Tensor

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.gamma = gamma_of(predictor)
        self.register_buffer("places", _places(predictor, [*predictor.super_model.sites, GLOBAL]))

    def forward(self, q: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        sites = len(self.places) - 1
        chosen = gate(q[:, -sites:], self.gamma)
        return self.places[torch.where(chosen < 0, sites, chosen)]


class _Likeliest(nn.Module):
    """argmax over the global model and the sites."""

    places: torch.Tensor

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.register_buffer("places", _places(predictor, predictor.classes))

    def forward(self, q: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        return self.places[q.argmax(dim=1)]


class _ExpectedDice(nn.Module):
    """argmax_k sum_j q_j U[j, k]; an image that is nobody's kind gets the global model."""

    places: torch.Tensor
    table: torch.Tensor

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        weighed = ExpectedDiceGate.of(predictor)
        assert weighed is not None
        self.temperature = weighed.temperature
        self.register_buffer("table", weighed.table)
        self.register_buffer("places", _places(predictor, weighed.experts))
        self.fallback = list(predictor.experts).index(GLOBAL) if GLOBAL in weighed.experts else NO_MODEL
        judge = Familiarity.of(predictor) if self.fallback != NO_MODEL else None
        self.unusual = None if judge is None else _Unusual(predictor, judge)

    def forward(self, q: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        best = self.places[expected_dice_gate(tempered(q, self.temperature), self.table)]
        return best if self.unusual is None else torch.where(self.unusual(images), self.fallback, best)


class _Unusual(nn.Module):
    """Whether the image that the slices belong to is nobody's kind: `[1]`."""

    def __init__(self, predictor: Predictor, judge: Familiarity) -> None:
        super().__init__()
        self.extractor = predictor.feature_net()
        self.discriminant = judge.discriminant
        self.farthest = judge.farthest

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.extractor(images)
        distance = self.discriminant.distances(features.double()).mean(dim=0).amin(dim=0)
        return foreign(distance[None], self.farthest)


def _places(predictor: Predictor, names: list[str]) -> torch.Tensor:
    """Where each of `names` stands among the exported models."""
    experts = list(predictor.experts)
    return torch.tensor([experts.index(name) if name in experts else NO_MODEL for name in names])
