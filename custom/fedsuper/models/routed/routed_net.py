"""The routed net of IOP-FL: any net of the product with weights that are mixed, layer by layer, from frozen experts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm

from fedsuper.config import RoutingConfig
from fedsuper.core.state import State, check_alike
from fedsuper.errors import FedSuperError
from fedsuper.models.routed.gate import Gate
from fedsuper.models.routed.layers import CONVOLUTIONS, Route, RoutedConv, RoutedNorm, RoutedPReLU


class RoutedNet(nn.Module):
    """W^l = sum_k r_k^l W_k^l with r^l from a gate on the layer's pooled input (IOP-FL, Eq. 2, 5 and 6).

    `template` is a net as the product builds it; its convolutions, norms and PReLUs are replaced in place, found by
    type. The routed net's parameters are its gates (and, with `affine`, what is added to the norms' scale and shift)
    and nothing else: an optimizer cannot touch an expert, and `state_dict` is what a hospital keeps. With
    `level: global` one gate on the input image rules all layers.
    """

    def __init__(
        self, template: nn.Module, experts: Sequence[State], config: RoutingConfig, random: torch.Generator
    ) -> None:
        super().__init__()
        if len(experts) < 2:
            raise FedSuperError(f"routing mixes a global model with personalized ones, this super model holds "
                                f"{len(experts)} segmentation model(s); train with fedsm or iop-fl")
        for state in experts:
            check_alike(state, template.state_dict(), "routing")
        convolutions = [module for module in template.modules() if isinstance(module, _ConvNd)]
        if not convolutions:
            raise FedSuperError("routing needs a net with convolutions, this one has none")
        gate = functools.partial(
            Gate, experts=len(experts), kind=config.gate, normalize=config.normalize, random=random,
            hidden=config.hidden, dropout=config.dropout,
        )
        self.route = Route()
        self.config = config
        self.image_gate = gate(convolutions[0].in_channels) if config.level == "global" else None
        self._swap_layers(template, experts, gate)
        self.net = template
        self.layers = {layer.name: layer for layer in template.modules() if isinstance(layer, RoutedConv)}
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the mixed model; every image is segmented by weights of its own where gates read the input."""
        self.route.rows = {}
        if self.image_gate is not None:
            self.route.coefficients = self.image_gate(images)
        logits: Tensor = self.net(images)
        return logits

    def coefficients(self, images: int | None = None) -> dict[str, Tensor]:
        """The routing matrix R of the last pass: per layer, in the order they ran, its row, averaged over the batch.

        `images` limits the average to the first so many of the batch.
        """
        return {name: rows[:images].detach().mean(0).cpu() for name, rows in self.route.rows.items()}

    def begin_at(self, row: Tensor) -> None:
        """Let the coefficients of every layer start at `row` `[E]` instead of evenly."""
        for gate in self.gates():
            gate.begin_at(row)

    def drop(self, random: torch.Generator | None) -> None:
        """Switch the gates' dropout on, drawn from `random`, or off."""
        for gate in self.gates():
            gate.dropping = random

    def gates(self) -> list[Gate]:
        """All gates."""
        return [module for module in self.modules() if isinstance(module, Gate)]

    def pin(self, rows: Tensor | Mapping[str, Tensor] | None) -> None:
        """Put given coefficients in the gates' place: one row for all layers, or one per layer; None undoes it."""
        for name, layer in self.layers.items():
            row = rows[name] if isinstance(rows, Mapping) else rows
            layer.pinned = None if row is None else row[None]

    def _swap_layers(self, template: nn.Module, experts: Sequence[State], gate: Callable[[int], Gate]) -> None:
        """Replace every module that has weights; one that cannot be routed is an error, never silently kept."""
        for path, parent in list(template.named_modules()):
            for child_name, child in list(parent.named_children()):
                name = f"{path}.{child_name}" if path else child_name
                own = [*child.named_parameters(recurse=False), *child.named_buffers(recurse=False)]
                if own:
                    states = [{entry: state[f"{name}.{entry}"] for entry, _ in own} for state in experts]
                    setattr(parent, child_name, self._routed(name, child, states, gate))

    def _routed(self, name: str, module: nn.Module, states: list[State], gate: Callable[[int], Gate]) -> nn.Module:
        if isinstance(module, _ConvNd) and type(module) in CONVOLUTIONS:
            own_gate = gate(module.in_channels) if self.config.level == "layer" else None
            return RoutedConv(name, module, states, own_gate, self.route)
        if isinstance(module, (_BatchNorm, _InstanceNorm)):
            return RoutedNorm(module, states, self.config.norm_statistics, self.route, self.config.affine)
        if isinstance(module, nn.PReLU):
            return RoutedPReLU(states, self.route)
        raise FedSuperError(f"routing: layer {name} is a {type(module).__name__}, which cannot be mixed; "
                            "use a net of convolutions, batch or instance norms and PReLUs")
