"""Small nets and made-up experts for the tests of routing: every kind of net the product builds."""

import torch
from torch import nn

from fedsuper.config import RoutingConfig
from fedsuper.core.state import State
from fedsuper.models.build import build_segmentation, first_weights
from fedsuper.models.net import NetSettings
from fedsuper.models.nets.attention_unet import AttentionUNetSettings
from fedsuper.models.nets.plain_unet import PlainUNetSettings
from fedsuper.models.nets.unet import UNetSettings
from fedsuper.models.routed.routed_net import RoutedNet

NETS = {
    "unet-instance": UNetSettings(channels=(4, 6, 8), residual_units=2, norm="instance"),
    "unet-batch": UNetSettings(channels=(4, 6, 8), residual_units=2, norm="batch"),
    "unet-no-residual": UNetSettings(channels=(4, 6), residual_units=0, norm="batch"),
    "plain-batch": PlainUNetSettings(channels=(4, 6), norm="batch"),
    "plain-instance": PlainUNetSettings(channels=(4, 6), norm="instance"),
    "attention": AttentionUNetSettings(channels=(4, 6, 8)),
}
CHANNELS, REGIONS, SIZE = 3, 2, 16


def build(config: NetSettings) -> nn.Module:
    return build_segmentation(config, CHANNELS, REGIONS)


def random_of(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_experts(config: NetSettings, count: int = 3) -> list[State]:
    """Experts that differ in every entry: kernels, biases, norm affine, running statistics, PReLU slopes."""
    experts = []
    for seed in range(count):
        random, state = random_of(seed), first_weights(lambda: build(config), seed)
        for name, tensor in state.items():
            if tensor.is_floating_point():
                change = torch.rand(tensor.shape, generator=random)
                state[name] = tensor + (change if name.endswith("running_var") else 0.2 * (change - 0.5))
        experts.append(state)
    return experts


def expert_net(config: NetSettings, state: State) -> nn.Module:
    net = build(config)
    net.load_state_dict(state)
    return net.eval()


def routed(config: NetSettings, experts: list[State], **options: object) -> RoutedNet:
    with torch.device("meta"):
        template = build(config)
    return RoutedNet(template, experts, RoutingConfig.model_validate(options), random_of(7))


def images(count: int = 2, seed: int = 3, size: int = SIZE) -> torch.Tensor:
    return torch.randn(count, CHANNELS, size, size, generator=random_of(seed))
