"""FedRep (Collins et al. 2021): a shared body, a head per site.

A round at site k: the head is trained for `head_epochs` with the body frozen, then the body for the study's local
epochs with the head frozen; only the body is averaged. Frozen parts keep their norm statistics too. Neither paper
says what the head of a U-Net is. Here it is the layer that turns features into outputs, with all that follows it (the
plain U-Net's 1x1 convolution, the last up block of MONAI's), or as many of the last convolutions as `head_layers` says.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from torch import nn

from fedsuper.config import Strict
from fedsuper.core.partition import freeze, head_entries
from fedsuper.core.state import Models
from fedsuper.core.supermodel import GLOBAL
from fedsuper.methods.parts.partly_shared import PartlyShared
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.train.learner import Learner


class AlternatingLearner(Learner):
    """Trains the head in its first epochs and the body in the rest."""

    def __init__(self, *args: Any, head: frozenset[str], body: frozenset[str], head_epochs: int) -> None:
        super().__init__(*args)
        self.head = head
        self.body = body
        self.head_epochs = head_epochs
        self.epochs = 0

    def start_epoch(self) -> None:
        freeze(self.net, self.body if self.epochs < self.head_epochs else self.head)
        self.epochs += 1


class FedRepKnobs(Strict):
    """`head_layers: auto` begins the head at the output layer; a number counts from the end, 0 is FedAvg."""

    head_layers: Annotated[int, Field(ge=0)] | Literal["auto"] = "auto"
    head_epochs: int = Field(4, ge=0)


class FedRep(PartlyShared[FedRepKnobs]):
    """Heads are private, the body is FedAvg's."""

    name = "fedrep"
    paper = "Collins et al. 2021; IOP-FL Table I"
    travels = "w without the head, down and up"
    keeps = "its head, optimizer state"
    Knobs = FedRepKnobs

    def private_entries(self, net: nn.Module) -> frozenset[str]:
        return head_entries(net, None if self.knobs.head_layers == "auto" else self.knobs.head_layers)

    def local_update(self, site: SiteRound) -> Models:
        head_epochs = self.knobs.head_epochs if self.private else 0
        body_epochs = self.study.local_epochs if self.public else 0
        options: dict[str, Any] = {"head": self.private, "body": self.public, "head_epochs": head_epochs}
        learner = site.learner(GLOBAL, self.model_of(site), AlternatingLearner, **options)
        site.fit([learner], epochs=head_epochs + body_epochs)
        return self.uplink(site, {GLOBAL: learner})
