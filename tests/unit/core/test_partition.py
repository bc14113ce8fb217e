"""Parts of a net are found by module type and order, whatever the layers are called."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedsuper.config import ModelConfig
from fedsuper.core.partition import freeze, head_entries, head_layer, norm_entries
from fedsuper.models import build_segmentation


class OddNames(nn.Module):
    """A convolution called `bn` and a norm layer called `mixer`: names must not matter."""

    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.Conv2d(1, 2, 1)
        self.mixer = nn.BatchNorm2d(2)
        self.last = nn.Conv2d(2, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.mixer(self.bn(x)))


def test_norm_layers_are_found_by_type() -> None:
    entries = norm_entries(OddNames())
    assert entries == {
        f"mixer.{name}" for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    }


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (ModelConfig(channels=(4, 8), norm="batch"), True),
        (ModelConfig(channels=(4, 8), norm="instance"), False),
        (ModelConfig(name="plain-unet", channels=(4, 8), norm="batch"), True),
        (ModelConfig(name="plain-unet", channels=(4, 8), norm="instance"), True),
    ],
)
def test_what_the_nets_of_a_study_keep(config: ModelConfig, expected: bool) -> None:
    net = build_segmentation(config, 1, 1)
    entries = norm_entries(net)
    assert bool(entries) == expected and entries <= set(net.state_dict())
    if config.norm == "batch":
        assert {name for name in net.state_dict() if "running" in name} <= entries


@pytest.mark.parametrize("config", [ModelConfig(channels=(4, 8)), ModelConfig(name="plain-unet", channels=(4, 8))])
def test_a_head_is_the_end_of_the_net(config: ModelConfig) -> None:
    net = build_segmentation(config, 1, 2)
    everything = set(net.state_dict())
    assert head_entries(net, 0) == frozenset()
    assert head_entries(net, 1000) == everything
    sizes = [len(head_entries(net, layers)) for layers in range(6)]
    assert sizes == sorted(sizes) and all(
        head_entries(net, layers) < head_entries(net, layers + 1) for layers in range(5)
    )
    last = dict(net.named_parameters())
    assert {last[name].shape[0] for name in head_entries(net, 1)} == {2}, "the last layer has one output per region"


def test_the_head_layer_is_where_the_head_begins() -> None:
    net = OddNames()
    assert head_layer(net, 1) is net.last
    assert head_layer(net, 2) is net.bn
    assert head_layer(net, 99) is net.bn


def test_frozen_parts_move_neither_weights_nor_statistics() -> None:
    net = OddNames()
    frozen = norm_entries(net) | {"bn.weight", "bn.bias"}
    freeze(net, frozen)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    net(torch.randn(4, 1, 3, 3, generator=torch.Generator().manual_seed(0))).square().sum().backward()
    optimizer.step()
    changed = {name for name, tensor in net.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {"last.weight", "last.bias"}


def test_thawing_trains_everything_again() -> None:
    net = OddNames()
    freeze(net, set(net.state_dict()))
    freeze(net, frozenset())
    assert all(parameter.requires_grad for parameter in net.parameters()) and net.mixer.training
