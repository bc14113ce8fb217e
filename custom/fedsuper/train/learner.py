"""A learner: one net, its optimizer and its loss. `step` is the only place where weights change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from fedsuper.config import OptimizerConfig
from fedsuper.core.state import State, clone
from fedsuper.train.device import Compute
from fedsuper.train.optimizers import SGD, Adam

if TYPE_CHECKING:
    from fedsuper.train.private_steps import PrivateSteps

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass
class Batch:
    """A batch that was loaded and augmented once; `another` draws a further independent one.

    `index` says which of the site's samples these are.
    """

    images: torch.Tensor
    masks: torch.Tensor
    index: torch.Tensor
    another: Callable[[], Batch]


def make_optimizer(parameters: list[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    """The study's optimizer, the same for every method so that a difference is a difference of methods.

    All parameters are stepped together: in one fused kernel on CUDA, elsewhere operation by operation (`foreach`),
    which gives the bits of a loop over the parameters.
    """
    fused = any(parameter.device.type == "cuda" for parameter in parameters)
    together = {"fused": True} if fused else {"foreach": True}
    if config.name == "sgd":
        return SGD(
            parameters, config.lr, momentum=config.momentum, weight_decay=config.weight_decay, **together
        )
    amsgrad = config.name == "amsgrad"
    return Adam(
        parameters, config.lr, betas=config.betas, weight_decay=config.weight_decay, amsgrad=amsgrad, **together
    )


class Learner:
    """Minimizes loss(net(x), y) plus an optional penalty.

    A method overrides `objective` (another loss), `gradients` (another direction, the study's optimizer still takes the
    step) or `step` (more or less than one optimizer step per batch).
    """

    def __init__(
        self, role: str, net: nn.Module, optimizer: torch.optim.Optimizer, loss: Loss, compute: Compute
    ) -> None:
        self.role = role
        self.net = net
        self.optimizer = optimizer
        self.loss = loss
        self.compute = compute
        self.penalty: Callable[[nn.Module], torch.Tensor] | None = None
        self.private: PrivateSteps | None = None
        self.steps = 0
        self._scaler = torch.amp.GradScaler(compute.device.type, enabled=compute.amp == "fp16")

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The net's trainable parameters, in the net's own order."""
        return [parameter for parameter in self.net.parameters() if parameter.requires_grad]

    def objective(self, batch: Batch) -> torch.Tensor:
        """The scalar whose gradient is taken."""
        with self.compute.autocast():
            value = self.loss(self.net(batch.images), batch.masks)
        return value if self.penalty is None else value + self.penalty(self.net)

    def gradients(self, batch: Batch) -> torch.Tensor:
        """Fill the parameters' gradients, scaled as mixed precision asks; returns the loss."""
        value = self.objective(batch)
        torch.autograd.backward(self._scaler.scale(value))
        return value.detach()

    def step(self, batch: Batch) -> torch.Tensor:
        """One optimizer step on one batch; returns the loss before it, on the device: reading it would wait for it."""
        self.optimizer.zero_grad(set_to_none=True)
        value = self.gradients(batch) if self.private is None else self.private.gradients(self, batch)
        scale = self._scaler.get_scale()
        self._scaler.step(self.optimizer)
        self._scaler.update()
        self.steps += int(self._scaler.get_scale() >= scale)  # half precision skips a step that overflowed
        return value

    def gradient_of(self, value: torch.Tensor) -> list[torch.Tensor]:
        """d value / d parameters, unscaled, without touching the parameters' own gradients."""
        scaled = self._scaler.scale(value)
        found = torch.autograd.grad(scaled, self.parameters, allow_unused=True, materialize_grads=True)
        return [gradient / self._scaler.get_scale() for gradient in found]

    def set_gradients(self, gradients: Sequence[torch.Tensor]) -> None:
        """Make `gradients` what the next optimizer step follows."""
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient * self._scaler.get_scale()

    @torch.no_grad()
    def move_to(self, origin: Sequence[torch.Tensor], direction: Sequence[torch.Tensor], amount: float) -> None:
        """Set the parameters to origin + amount * direction; amount 0 puts them back exactly."""
        for parameter, start, towards in zip(self.parameters, origin, direction, strict=True):
            parameter.copy_(start if amount == 0 else start + amount * towards)

    def start_epoch(self) -> None:
        """Training mode; a learner with frozen parts keeps their norm layers in evaluation mode here."""
        self.net.train()

    def state(self) -> State:
        """The net's weights and buffers, copied to the CPU."""
        return clone(self.net.state_dict())

    def optimizer_state(self) -> State:
        """Moments and step counts by parameter name: entries `slot|parameter`, tensors only."""
        return {
            f"{slot}|{name}": torch.as_tensor(value).detach().to("cpu", copy=True)
            for name, parameter in self.net.named_parameters()
            for slot, value in self.optimizer.state.get(parameter, {}).items()
            if value is not None
        }

    def load_optimizer_state(self, state: State) -> None:
        """The inverse of `optimizer_state`."""
        parameters = dict(self.net.named_parameters())
        fused = self.optimizer.defaults.get("fused")  # then the count of steps lies on the device as well
        for key, tensor in state.items():
            slot, _, name = key.partition("|")
            device = torch.device("cpu") if slot == "step" and not fused else self.compute.device
            self.optimizer.state[parameters[name]][slot] = tensor.to(device, copy=True)


class GradientLearner(Learner):
    """Sums the gradient over all images it sees, at fixed weights, instead of stepping."""

    images = 0
    epochs = 0

    def start_epoch(self) -> None:
        super().start_epoch()
        self.epochs += 1

    def step(self, batch: Batch) -> torch.Tensor:
        if self.private is not None:
            total, value = self.private.clipped_sum(self, batch)
            for parameter, slope in zip(self.parameters, total, strict=True):
                parameter.grad = slope if parameter.grad is None else parameter.grad + slope
            self.images += len(batch.images)
            return value
        value = self.objective(batch)
        torch.autograd.backward(value * len(batch.images))
        self.images += len(batch.images)
        return value.detach()

    def mean_gradient(self) -> list[torch.Tensor]:
        """The mean over images, in the order of `parameters`; zeros where nothing flowed."""
        count = max(self.images, 1)
        if self.private is not None:  # every epoch adds each image once more to the same sum
            for parameter in self.parameters:
                total = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                parameter.grad = total + self.epochs * self.private.draw(parameter)
            self.private = None  # drawn once
        return [torch.zeros_like(p) if p.grad is None else p.grad / count for p in self.parameters]
