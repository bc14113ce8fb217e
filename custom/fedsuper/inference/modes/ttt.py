"""TTT (Sun et al., ICML 2020): at test time the encoder learns to tell quarter turns of the image, then segments it.

The rotation head is trained together with the model, by the method `ttt`, and comes with its super model.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from fedsuper.config import Strict
from fedsuper.core.mode import GLOBAL
from fedsuper.core.state import clone
from fedsuper.errors import FedSuperError
from fedsuper.inference.modes.base import ModeOptions
from fedsuper.inference.modes.image_by_image import ImageByImage
from fedsuper.inference.norm_statistics import use_test_statistics
from fedsuper.inference.predictor import Predictor
from fedsuper.models.rotation import (
    ROTATION_HEAD,
    RotationHead,
    encoder_parameters,
    rotation_loss,
    turned,
)
from fedsuper.train.device import Compute
from fedsuper.train.optimizers import SGD


class TTTKnobs(Strict):
    """As in TTT: one SGD step at 1e-3, from the trained weights for every image; `online` carries on instead."""

    lr: float = Field(1e-3, ge=0)
    steps: int = Field(1, ge=0)
    online: bool = False
    norm_statistics: Literal["running", "image", "batch"] = "running"


class RotationAdapter:
    """SGD on encoder and head over the four turns of the image; the decoder stays. No step is the trained model."""

    def __init__(self, net: nn.Module, head: nn.Module, knobs: TTTKnobs, compute: Compute) -> None:
        self.both = nn.ModuleDict({"net": net.eval(), "head": head})
        self.knobs = knobs
        self.compute = compute
        self.start = clone(self.both.state_dict())
        self.optimizer: torch.optim.Optimizer | None = None

    def logits(self, images: Tensor) -> Tensor:
        """Adapt on `images`, then predict them."""
        placed = self.compute.place(images)
        if not self.knobs.online:
            self.both.load_state_dict(self.start)
        with torch.enable_grad():
            self._adapt(placed)
        with torch.no_grad(), self.compute.autocast():
            logits: Tensor = self.both["net"](placed)
            return logits.float().cpu()

    def _adapt(self, images: Tensor) -> None:
        net, head = self.both["net"], self.both["head"]
        if self.optimizer is None:
            adapted = [*encoder_parameters(net, images[:1]), *head.parameters()]
            self.optimizer = SGD(adapted, self.knobs.lr)
        copies, turns = turned(images)
        for _ in range(self.knobs.steps):
            self.optimizer.zero_grad(set_to_none=True)
            with self.compute.autocast():
                loss = rotation_loss(net, head, copies, turns)
            loss.backward()
            self.optimizer.step()


class RotationTraining(ImageByImage):
    """`ttt`: the global model, adapted to every image by the rotation task."""

    name: ClassVar[str] = "ttt"
    Knobs: ClassVar[type[Strict]] = TTTKnobs
    knobs: TTTKnobs

    @property
    def carries_on(self) -> bool:
        return self.knobs.online

    def __init__(self, predictor: Predictor, options: ModeOptions) -> None:
        super().__init__(predictor, options)
        state = predictor.super_model.extras.get(ROTATION_HEAD)
        if state is None:
            raise FedSuperError(f"mode ttt needs the rotation head that method ttt trains, this super model "
                                f"({predictor.super_model.manifest.get('method')}) has none; train with method: ttt")
        head = RotationHead(state["weight"].shape[1]).to(predictor.compute.device)
        head.load_state_dict(state)
        net = use_test_statistics(predictor.build(GLOBAL), self.knobs.norm_statistics)
        self.adapter = RotationAdapter(net, head, self.knobs, predictor.compute)
