"""Small nets and made-up experts for the tests of routing: every kind of net the product builds."""

import torch
from torch import nn

from fedsuper.config import ModelConfig, RoutingConfig
from fedsuper.core.state import State
from fedsuper.models import build_segmentation, first_weights
from fedsuper.models.routed import RoutedNet

NETS = {
    "unet-instance": ModelConfig(channels=(4, 6, 8), residual_units=2, norm="instance"),
    "unet-batch": ModelConfig(channels=(4, 6, 8), residual_units=2, norm="batch"),
    "unet-no-residual": ModelConfig(channels=(4, 6), residual_units=0, norm="batch"),
    "plain-batch": ModelConfig(name="plain-unet", channels=(4, 6), norm="batch"),
    "plain-instance": ModelConfig(name="plain-unet", channels=(4, 6), norm="instance"),
}
CHANNELS, REGIONS, SIZE = 3, 2, 16


def build(config: ModelConfig) -> nn.Module:
    return build_segmentation(config, CHANNELS, REGIONS)


def random_of(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_experts(config: ModelConfig, count: int = 3) -> list[State]:
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


def expert_net(config: ModelConfig, state: State) -> nn.Module:
    net = build(config)
    net.load_state_dict(state)
    return net.eval()


def routed(config: ModelConfig, experts: list[State], **options: object) -> RoutedNet:
    with torch.device("meta"):
        template = build(config)
    return RoutedNet(template, experts, RoutingConfig.model_validate(options), random_of(7))


def images(count: int = 2, seed: int = 3, size: int = SIZE) -> torch.Tensor:
    return torch.randn(count, CHANNELS, size, size, generator=random_of(seed))
