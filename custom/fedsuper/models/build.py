"""From configuration to nets, and the weights every model of a study starts from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from fedsuper.config import ModelConfig, SelectorConfig
from fedsuper.core.state import State, clone
from fedsuper.errors import FedSuperError


def build_segmentation(config: ModelConfig, channels: int, regions: int) -> nn.Module:
    """A 2D net from `channels` input planes to one logit map per region."""
    if config.name == "plain-unet":
        from fedsuper.models.plain_unet import PlainUNet

        return PlainUNet(channels, regions, config.channels, norm=config.norm)
    from monai.networks.nets import UNet

    strides = config.strides or (2,) * (len(config.channels) - 1)
    return UNet(
        spatial_dims=2,
        in_channels=channels,
        out_channels=regions,
        channels=config.channels,
        strides=strides,
        num_res_units=config.residual_units,
        norm=config.norm,
    )


def build_selector(config: SelectorConfig, channels: int, classes: int) -> nn.Module:
    """The classifier that tells which site an image resembles."""
    if classes < 1:
        raise FedSuperError(f"selector: at least one site is needed, got {classes}")
    if config.net == "vgg11":
        from fedsuper.models.selector_vgg import VGG11Selector

        return VGG11Selector(channels, classes)
    from fedsuper.models.selector_small import SmallSelector

    return SmallSelector(channels, classes)


def first_weights(build: Callable[[], nn.Module], seed: int) -> State:
    """The seeded starting point; the caller's random state is left as it was.

    All personalized models and the global model start here: averages of models with different starts mean nothing.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return clone(build().state_dict())


def smallest_image(config: ModelConfig) -> int:
    """The image side must be a multiple of this for the skip connections to meet."""
    strides = config.strides or (2,) * (len(config.channels) - 1)
    product = 1
    for stride in strides:
        product *= stride
    return product
