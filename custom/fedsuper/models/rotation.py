"""The auxiliary task of test-time training: which of four quarter turns was an image given?

The head reads what reaches the first transposed convolution, the deepest features of every U-Net here; where that is
follows from the order in which a net's modules run, not from their names.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedsuper.errors import FedSuperError

ROTATION_HEAD = "rotation-head"  # its name among a super model's extras
TURNS = 4
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


class _Reached(Exception):  # noqa: N818 (a signal, not an error)
    """Carries the deepest features out of a net whose decoder need not run."""


class RotationHead(nn.Module):
    """Linear on the pooled deepest features."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(TURNS, features))
        self.bias = nn.Parameter(torch.zeros(TURNS))

    def forward(self, features: Tensor) -> Tensor:
        """Logits over the four turns."""
        return F.linear(features.float().mean((2, 3)), self.weight, self.bias)


def deepest_features(net: nn.Module, images: Tensor) -> Tensor:
    """The encoder's output: the input of the first transposed convolution that runs."""

    def stop(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        raise _Reached(inputs[0])

    hooks = [module.register_forward_pre_hook(stop) for module in net.modules() if isinstance(module, TRANSPOSED)]
    try:
        net(images)
    except _Reached as reached:
        features: Tensor = reached.args[0]
        return features
    finally:
        for hook in hooks:
            hook.remove()
    raise FedSuperError("test-time training needs a net that goes up by transposed convolutions; this one has none")


def encoder_parameters(net: nn.Module, images: Tensor) -> list[nn.Parameter]:
    """The parameters that the deepest features of `images` depend on."""
    parameters = [parameter for parameter in net.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(deepest_features(net, images).sum(), parameters, allow_unused=True)
    return [parameter for parameter, gradient in zip(parameters, gradients, strict=True) if gradient is not None]


def turned(images: Tensor) -> tuple[Tensor, Tensor]:
    """Every image in all four turns, `[4N, C, S, S]`, with the turns that were made."""
    copies = torch.cat([torch.rot90(images, turns, (2, 3)) for turns in range(TURNS)])
    return copies, torch.arange(TURNS, device=images.device).repeat_interleave(len(images))


def rotation_loss(net: nn.Module, head: nn.Module, images: Tensor, turns: Tensor) -> Tensor:
    """Cross-entropy of the head's guess on images that were turned so."""
    return F.cross_entropy(head(deepest_features(net, images)), turns)
