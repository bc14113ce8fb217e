"""Which entries of a net's state belong to which part, found by module type and order, never by layer names."""

from __future__ import annotations

from collections.abc import Collection

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

NORM_LAYERS = (_NormBase, nn.GroupNorm, nn.LayerNorm)
WEIGHT_LAYERS = (nn.modules.conv._ConvNd, nn.Linear)


def norm_entries(net: nn.Module) -> frozenset[str]:
    """Affine weights and running statistics of every normalization layer.

    MONAI calls its norm layers `adn.N`, others `bn1`; the module's type is what they have in common. MONAI's default
    InstanceNorm (no affine, no statistics) has no entries.
    """
    return frozenset(
        entry for name, module in net.named_modules() if isinstance(module, NORM_LAYERS) for entry in _own(name, module)
    )


def output_layer(net: nn.Module) -> nn.Module:
    """The last layer that writes fewer channels than it reads: where a segmentation net turns features into outputs.

    In the plain U-Net that is its 1x1 convolution, in MONAI's U-Net the last up-convolution, whether or not a residual
    unit follows it. Its input is the richest description the net has of a pixel.
    """
    weighted = [module for module in net.modules() if isinstance(module, WEIGHT_LAYERS)]
    return next((module for module in reversed(weighted) if _narrows(module)), weighted[-1])


def head_entries(net: nn.Module, layers: int | None = None) -> frozenset[str]:
    """Everything registered from the output layer on, or from the `layers`-th last convolution (or linear layer) on.

    0 is an empty head; as many layers as there are, or more, is the whole net.
    """
    modules = list(net.named_modules())
    weighted = [index for index, (_, module) in enumerate(modules) if isinstance(module, WEIGHT_LAYERS)]
    if layers == 0:
        return frozenset()
    if layers is None:
        start = next(index for index, (_, module) in enumerate(modules) if module is output_layer(net))
    else:
        start = weighted[-layers] if layers < len(weighted) else 0
    return frozenset(entry for name, module in modules[start:] for entry in _own(name, module))


def freeze(net: nn.Module, frozen: Collection[str]) -> None:
    """Train all entries of `net` but those in `frozen`, whose norm layers also stop moving their statistics."""
    net.train()
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name not in frozen)
    for name, module in net.named_modules():
        entries = _own(name, module)
        if isinstance(module, NORM_LAYERS) and entries and entries[0] in frozen:
            module.eval()


def _own(name: str, module: nn.Module) -> list[str]:
    """The state entries a module holds itself, not through its children."""
    prefix = f"{name}." if name else ""
    return [f"{prefix}{entry}" for entry in module.state_dict() if "." not in entry]


def _narrows(module: nn.Module) -> bool:
    if isinstance(module, nn.modules.conv._ConvNd):
        return module.out_channels < module.in_channels
    return isinstance(module, nn.Linear) and module.out_features < module.in_features
