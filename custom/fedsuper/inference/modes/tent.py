"""Tent (Wang et al., ICLR 2021): adapt the norm layers' scale and shift to the test images by entropy."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from fedsuper.config import Strict
from fedsuper.core.mode import GLOBAL
from fedsuper.core.state import clone
from fedsuper.errors import FedSuperError
from fedsuper.inference.modes.base import ModeOptions
from fedsuper.inference.modes.image_by_image import ImageByImage
from fedsuper.inference.norm_statistics import FreshNorm, use_test_statistics
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.routing.loss import entropy
from fedsuper.train.device import Compute
from fedsuper.train.optimizers import Adam


class TentKnobs(Strict):
    """As in Tent: Adam at 1e-3, one step an image, carried on from image to image (results depend on their order).

    `online: False` starts anew with every image. `norm_statistics: image` is Tent's; the others are there to compare.
    """

    lr: float = Field(1e-3, ge=0)
    steps: int = Field(1, ge=0)
    online: bool = True
    norm_statistics: Literal["running", "image", "batch"] = "image"


class TentAdapter:
    """min over the norms' affine parameters of the mean entropy, by default with each test image's own statistics.

    With a learning rate of zero it is the global model with image statistics.
    """

    def __init__(self, net: nn.Module, knobs: TentKnobs, compute: Compute) -> None:
        self.net = use_test_statistics(net.requires_grad_(False), knobs.norm_statistics)
        self.knobs = knobs
        self.compute = compute
        self.parameters = norm_parameters(self.net)
        if not self.parameters:
            raise FedSuperError("tent adapts the scale and shift of the norm layers, this super model's net has none; "
                                "train with model.norm: batch, or use --mode route or global-stats")
        for parameter in self.parameters:
            parameter.requires_grad_(True)
        self.start = clone(self.net.state_dict())
        self.optimizer = self._fresh_optimizer()

    def logits(self, images: Tensor) -> Tensor:
        """Adapt on `images`, then predict them."""
        if not self.knobs.online:
            self.net.load_state_dict(self.start)
            self.optimizer = self._fresh_optimizer()
        placed = self.compute.place(images)
        for _ in range(self.knobs.steps):
            with torch.enable_grad(), self.compute.autocast():
                value = entropy(self.net(placed).float()).mean()
            self.optimizer.zero_grad(set_to_none=True)
            value.backward()
            self.optimizer.step()
        with torch.no_grad(), self.compute.autocast():
            logits: Tensor = self.net(placed)
            return logits.float().cpu()

    def _fresh_optimizer(self) -> torch.optim.Optimizer:
        return Adam(self.parameters, self.knobs.lr)


def norm_parameters(net: nn.Module) -> list[nn.Parameter]:
    """Scale and shift of every norm layer, found by type."""
    norms = [module for module in net.modules() if isinstance(module, (FreshNorm, _BatchNorm, _InstanceNorm))]
    return [parameter for norm in norms for parameter in norm.parameters(recurse=False)]


class Tent(ImageByImage):
    """`tent`: the global model, adapted image by image."""

    name: ClassVar[str] = "tent"
    Knobs: ClassVar[type[Strict]] = TentKnobs
    knobs: TentKnobs

    @property
    def carries_on(self) -> bool:
        return self.knobs.online

    def __init__(self, predictor: Predictor, options: ModeOptions) -> None:
        super().__init__(predictor, options)
        self.adapter = TentAdapter(predictor.build(GLOBAL), self.knobs, predictor.compute)
