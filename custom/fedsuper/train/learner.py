"""A learner: one net, its optimizer and its loss. `step` is the only place where weights change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from fedsuper.config import OptimizerConfig
from fedsuper.core.state import State, clone
from fedsuper.train.device import Compute

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass
class Batch:
    """A batch that was loaded and augmented once; `another` draws a further independent one."""

    images: torch.Tensor
    masks: torch.Tensor
    another: Callable[[], Batch]


def make_optimizer(parameters: list[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    """The study's optimizer, the same for every method so that a difference is a difference of methods."""
    if config.name == "sgd":
        return torch.optim.SGD(parameters, config.lr, momentum=config.momentum, weight_decay=config.weight_decay)
    return torch.optim.Adam(
        parameters, config.lr, betas=config.betas, weight_decay=config.weight_decay, amsgrad=config.name == "amsgrad"
    )


class Learner:
    """Minimises loss(net(x), y) plus an optional penalty; methods override `gradients` or `step`."""

    def __init__(self, role: str, net: nn.Module, optimizer: torch.optim.Optimizer, loss: Loss, compute: Compute) -> None:
        self.role = role
        self.net = net
        self.optimizer = optimizer
        self.loss = loss
        self.compute = compute
        self.penalty: Callable[[nn.Module], torch.Tensor] | None = None
        self.steps = 0
        self._scaler = torch.amp.GradScaler(compute.device.type, enabled=compute.amp == "fp16")

    def objective(self, batch: Batch) -> torch.Tensor:
        """The scalar whose gradient is taken."""
        with self.compute.autocast():
            value = self.loss(self.net(batch.images), batch.masks)
        return value if self.penalty is None else value + self.penalty(self.net)

    def step(self, batch: Batch) -> float:
        """One optimizer step on one batch; returns the loss before it."""
        self.optimizer.zero_grad(set_to_none=True)
        value = self.objective(batch)
        self._scaler.scale(value).backward()
        self._scaler.step(self.optimizer)
        self._scaler.update()
        self.steps += 1
        return float(value.detach())

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
        for key, tensor in state.items():
            slot, _, name = key.partition("|")
            target = tensor.clone() if slot == "step" else tensor.to(self.compute.device, copy=True)
            self.optimizer.state[parameters[name]][slot] = target
