"""Test-time training (Sun et al. 2020), the part inside the federation: FedAvg with a second task.

    min L_seg(w; x, y) + weight CE(h(e(T_t x)), t),   t uniform in {0, 1, 2, 3} quarter turns

e is the encoder inside w, h a linear head on its pooled deepest features; both w and h are averaged by sample count.
The head comes with the super model: at test time its loss, which needs no label, adapts the encoder to an image.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import nn

from fedsuper.config import Strict
from fedsuper.core.state import Models, clone
from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.methods.fedavg import FedAvg
from fedsuper.methods.protocol.nets import input_planes, segmentation_net
from fedsuper.methods.protocol.server import Server, Update
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.methods.protocol.upload import Upload, model
from fedsuper.models.rotation import ROTATION_HEAD, TURNS, RotationHead, deepest_features, rotation_loss
from fedsuper.train.learner import Batch, Learner, make_optimizer
from fedsuper.train.seeding import generator

# The head that was sent along with the global model that is the best so far.
BEST_HEAD = f"best-{ROTATION_HEAD}"


class TTTKnobs(Strict):
    """`weight` of the rotation task beside the segmentation loss; 0 is FedAvg."""

    weight: float = Field(1.0, ge=0)


class RotationLearner(Learner):
    """A segmentation model and a rotation head that train together; every image is turned at random once a step.

    The rotation task gets the images as they are: after random flips a half turn could not be told from none.
    """

    def __init__(self, role: str, site: SiteRound, head: nn.Module, weight: float) -> None:
        both = nn.ModuleDict({"net": site.segmentation(site.received[role]), "head": head.to(site.compute.device)})
        optimizer = make_optimizer(list(both.parameters()), site.study.optimizer)
        super().__init__(role, both, optimizer, site.loss, site.compute)
        self.segmentation, self.head, self.weight = both["net"], head, weight
        self.images = site.train.images
        self.random = generator(site.study.seed, site.name, site.round, "rotation")

    def objective(self, batch: Batch) -> torch.Tensor:
        with self.compute.autocast():
            value = self.loss(self.segmentation(batch.images), batch.masks)
            if self.weight == 0:
                return value
            turns = torch.randint(TURNS, (len(batch.index),), generator=self.random)
            pairs = zip(self.images[batch.index], turns.tolist(), strict=True)
            turned = self.compute.place(torch.stack([torch.rot90(image, turn, (1, 2)) for image, turn in pairs]))
            return value + self.weight * rotation_loss(self.segmentation, self.head, turned, self.compute.move(turns))

    def state(self) -> dict[str, torch.Tensor]:
        return clone(self.segmentation.state_dict())


class TTT(FedAvg[TTTKnobs]):
    """The model that mode `ttt` starts from; untouched at test time it is a global model like FedAvg's."""

    name = "ttt"
    paper = "Sun et al. 2020; IOP-FL Table II"
    travels = "w and the rotation head (a few kB) down, the same up"
    Knobs = TTTKnobs

    def start(self, server: Server) -> Models:
        net = segmentation_net(self.study, server.task).eval()
        size = self.study.image_size
        with torch.no_grad():
            features = deepest_features(net, torch.zeros(1, input_planes(self.study, server.task), size, size))
        head = clone(RotationHead(features.shape[1]).state_dict())
        return super().start(server) | {ROTATION_HEAD: head, BEST_HEAD: head}

    def downlink(self, server: Server, site: str) -> Models:
        return super().downlink(server, site) | {ROTATION_HEAD: server.models[ROTATION_HEAD]}

    def learners(self, site: SiteRound) -> list[Learner]:
        state = site.received[ROTATION_HEAD]
        head = RotationHead(state["weight"].shape[1])
        head.load_state_dict(state)
        learner = RotationLearner(self.shared, site, head, self.knobs.weight)
        site.restore_optimizer(learner)
        return [learner]

    def uplink(self, site: SiteRound, learners: Mapping[str, Learner]) -> Models:
        learner = learners[self.shared]
        assert isinstance(learner, RotationLearner)
        return super().uplink(site, learners) | {ROTATION_HEAD: clone(learner.head.state_dict())}

    def uploads(self, server: Server, site: str, sent: Models) -> dict[str, Upload]:
        return super().uploads(server, site, sent) | {ROTATION_HEAD: model(sent[ROTATION_HEAD])}

    def aggregate(self, server: Server, updates: dict[str, Update]) -> Models:
        head = self.mean(updates, ROTATION_HEAD)
        moved = super().aggregate(server, updates) | {BEST_HEAD: self._head(server)}
        return moved if head is None else moved | {ROTATION_HEAD: head}

    def super_model(self, server: Server) -> SuperModel:
        super_model = super().super_model(server)
        super_model.extras = {ROTATION_HEAD: self._head(server)}
        return super_model

    def _head(self, server: Server) -> dict[str, torch.Tensor]:
        """The head that belongs to the best global model: this round's if that model is this round's."""
        best = server.best.get(GLOBAL)
        current = best is None or best["round"] == server.round
        return server.models[ROTATION_HEAD if current else BEST_HEAD]
