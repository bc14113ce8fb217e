"""Layers that mix the frozen weights of E experts with the coefficients of the moment (IOP-FL, Eq. 5).

A convolution asks its gate for coefficients and leaves them in the shared `Route`; the norm and the PReLU that run
after it take the same ones. So a layer's row belongs to everything up to the next convolution, found by execution
order and not by name, and a one-hot row is that expert's layer entire.

With several images in a batch every image has its own weights: the batch is laid out as groups of channels
(`[B, C, ...]` as `[1, B*C, ...]`), which runs all of them in one grouped call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from fedsuper.errors import FedSuperError
from fedsuper.models.routed.prelu import prelu

NormStatistics = Literal["image", "batch", "running"]

CONVOLUTIONS: dict[type[nn.Module], Callable[..., Tensor]] = {
    nn.Conv1d: F.conv1d, nn.Conv2d: F.conv2d, nn.Conv3d: F.conv3d,
    nn.ConvTranspose1d: F.conv_transpose1d, nn.ConvTranspose2d: F.conv_transpose2d,
    nn.ConvTranspose3d: F.conv_transpose3d,
}


@dataclass
class Route:
    """The coefficients in force, `[B, E]`, or `[1, E]` for all images alike; written by convolutions, read by the rest.

    `rows` are those of the last forward pass by layer, in the order in which the layers ran.
    """

    coefficients: Tensor = field(default_factory=lambda: torch.empty(0))
    rows: dict[str, Tensor] = field(default_factory=dict)

    def mix(self, stack: Tensor) -> Tensor:
        """sum_k r_k v_k of vectors, `[E, C]` to `[B, C]`; elementwise, so that mixed precision leaves it alone."""
        return (self.coefficients[..., None] * stack).sum(1)


class _Mix(torch.autograd.Function):
    """sum_k r_k W_k for large W_k, without a second copy of any of them."""

    @staticmethod
    def forward(ctx: Any, coefficients: Tensor, *experts: Tensor) -> Tensor:
        ctx.experts = experts
        mixed = coefficients.new_zeros((len(coefficients), *experts[0].shape))
        for column, expert in zip(coefficients.T, experts, strict=True):
            mixed.addcmul_(column.reshape(-1, *[1] * expert.dim()), expert[None])
        return mixed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        flat = gradients[0].flatten(1)
        by_expert = torch.stack([flat @ expert.flatten() for expert in ctx.experts], dim=1)
        return by_expert, *[None] * len(ctx.experts)


_mix: Callable[..., Tensor] = _Mix.apply


class RoutedConv(nn.Module):
    """A (transposed) convolution with W = sum_k r_k W_k and b = sum_k r_k b_k.

    The experts' kernels stay where they are: the buffers share storage with the states they come from.
    """

    biases: Tensor | None

    def __init__(
        self, name: str, conv: _ConvNd, states: Sequence[dict[str, Tensor]], gate: nn.Module | None, route: Route
    ) -> None:
        super().__init__()
        if conv.padding_mode != "zeros":
            raise FedSuperError(f"routing: convolutions pad with zeros, this net pads with '{conv.padding_mode}'")
        self.name, self.experts, self.gate, self.route = name, len(states), gate, route
        for index, state in enumerate(states):
            self.register_buffer(f"kernel_{index}", state["weight"], persistent=False)
        self.register_buffer("biases", _stack(states, "bias"), persistent=False)
        self.pinned: Tensor | None = None
        self.call = CONVOLUTIONS[type(conv)]
        self.groups = conv.groups
        self.options: dict[str, Any] = {"stride": conv.stride, "padding": conv.padding, "dilation": conv.dilation}
        if conv.transposed:
            self.options["output_padding"] = conv.output_padding

    def forward(self, hidden: Tensor) -> Tensor:
        if self.pinned is not None:
            self.route.coefficients = self.pinned
        elif self.gate is not None:
            self.route.coefficients = self.gate(hidden)
        rows = self.route.rows[self.name] = self.route.coefficients
        kernel = _mix(rows, *(getattr(self, f"kernel_{index}") for index in range(self.experts)))
        bias = None if self.biases is None else self.route.mix(self.biases).flatten()
        grouped = hidden.reshape(-1, len(rows) * hidden.shape[1], *hidden.shape[2:]) if len(rows) > 1 else hidden
        out = self.call(grouped, kernel.flatten(0, 1), bias, groups=self.groups * len(rows), **self.options)
        return out.reshape(len(hidden), -1, *out.shape[2:])


class RoutedNorm(nn.Module):
    """Batch or instance normalization with mixed affine parameters and the statistics that `statistics` names.

    `image`: each image its own mean and variance; `batch`: those of the batch; `running`: the experts' running ones,
    mixed. Instance normalization always is `image`. Where it is `tuned`, something is added to the mixed scale and
    shift, zero at first.
    """

    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None

    def __init__(
        self,
        norm: nn.Module,
        states: Sequence[dict[str, Tensor]],
        statistics: NormStatistics,
        route: Route,
        tuned: bool = False,
    ) -> None:
        super().__init__()
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(name, _stack(states, name), persistent=False)
        self.eps, self.route = float(norm.eps), route  # type: ignore[arg-type]
        self.statistics = statistics if isinstance(norm, _BatchNorm) else "image"
        channels = 0 if self.weight is None else self.weight.shape[1]
        self.more_weight, self.more_bias = (
            nn.Parameter(torch.zeros(channels)) if tuned and channels else None for _ in range(2)
        )

    def forward(self, hidden: Tensor) -> Tensor:
        weight, bias = (None if stack is None else self.route.mix(stack) for stack in (self.weight, self.bias))
        if weight is not None and bias is not None and self.more_weight is not None and self.more_bias is not None:
            weight, bias = weight + self.more_weight, bias + self.more_bias
        if self.statistics == "image":
            return image_norm(hidden, weight, bias, self.eps)
        if self.statistics == "batch" or self.running_mean is None or self.running_var is None:
            return _affine(F.batch_norm(hidden, None, None, training=True, eps=self.eps), weight, bias)
        scale = (self.route.mix(self.running_var) + self.eps).rsqrt()
        return _affine(_affine(hidden, scale, -self.route.mix(self.running_mean) * scale), weight, bias)


class RoutedPReLU(nn.Module):
    """PReLU with mixed slopes."""

    slopes: Tensor

    def __init__(self, states: Sequence[dict[str, Tensor]], route: Route) -> None:
        super().__init__()
        self.register_buffer("slopes", _stack(states, "weight"), persistent=False)
        self.route = route

    def forward(self, hidden: Tensor) -> Tensor:
        slopes = self.route.mix(self.slopes)
        if len(slopes) == 1:
            return prelu(hidden, slopes[0])
        each = slopes.expand(-1, hidden.shape[1]).flatten()
        return prelu(hidden.reshape(1, -1, *hidden.shape[2:]), each).reshape(hidden.shape)


def image_norm(hidden: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias with each image's own statistics; affine `[B, C]` or `[1, C]`."""
    count, channels = hidden.shape[:2]
    if hidden[0, 0].numel() == 1:
        raise FedSuperError("norm statistics of one image need more than one pixel in the deepest layer; "
                            "use a larger image_size or norm_statistics: running")
    weight, bias = (None if one is None else one.expand(count, channels).flatten() for one in (weight, bias))
    flat = hidden.reshape(1, count * channels, *hidden.shape[2:])
    return F.batch_norm(flat, None, None, weight, bias, training=True, eps=eps).reshape(hidden.shape)


def _stack(states: Sequence[dict[str, Tensor]], name: str) -> Tensor | None:
    return torch.stack([state[name] for state in states]) if name in states[0] else None


def _affine(hidden: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    spread = (..., *[None] * (hidden.dim() - 2))
    if weight is not None:
        hidden = hidden * weight[spread]
    return hidden if bias is None else hidden + bias[spread]
