"""Parts of a net are found by module type and order, whatever the layers are called."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedsuper.core.partition import freeze, head_entries, norm_entries, output_layer
from fedsuper.models.build import build_segmentation
from fedsuper.models.net import NetSettings
from fedsuper.models.nets.plain_unet import PlainUNetSettings
from fedsuper.models.nets.unet import UNetSettings


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
        (UNetSettings(channels=(4, 8), norm="batch"), True),
        (UNetSettings(channels=(4, 8), norm="instance"), False),
        (PlainUNetSettings(channels=(4, 8), norm="batch"), True),
        (PlainUNetSettings(channels=(4, 8), norm="instance"), True),
    ],
)
def test_what_the_nets_of_a_study_keep(config: NetSettings, expected: bool) -> None:
    net = build_segmentation(config, 1, 1)
    entries = norm_entries(net)
    assert bool(entries) == expected and entries <= set(net.state_dict())
    if config.norm == "batch":
        assert {name for name in net.state_dict() if "running" in name} <= entries


@pytest.mark.parametrize(
    "config",
    [
        UNetSettings(channels=(4, 8), residual_units=2),
        UNetSettings(channels=(2, 4, 4, 4), residual_units=0),
        PlainUNetSettings(channels=(4, 8)),
    ],
)
def test_a_head_is_the_end_of_the_net(config: NetSettings) -> None:
    net = build_segmentation(config, 1, 2)
    everything = set(net.state_dict())
    assert head_entries(net, 0) == frozenset()
    assert head_entries(net, 1000) == everything
    sizes = [len(head_entries(net, layers)) for layers in range(6)]
    assert sizes == sorted(sizes) and all(
        head_entries(net, layers) < head_entries(net, layers + 1) for layers in range(5)
    )
    biases = [p for name, p in net.named_parameters() if name in head_entries(net, 1) and p.dim() == 1]
    assert [len(bias) for bias in biases] == [2], "the last layer has one output per region"


@pytest.mark.parametrize(
    ("config", "reads"),
    [
        (UNetSettings(channels=(4, 8, 16), residual_units=2), 8),
        (UNetSettings(channels=(4, 8, 16), residual_units=0), 8),
        (PlainUNetSettings(channels=(4, 8)), 4),
    ],
)
def test_the_output_layer_reads_features_and_the_head_begins_there(config: NetSettings, reads: int) -> None:
    net = build_segmentation(config, 1, 2)
    layer = output_layer(net)
    assert layer.in_channels == reads and layer.out_channels == 2
    names = {id(tensor): name for name, tensor in net.named_parameters()}
    assert {names[id(p)] for p in layer.parameters()} <= head_entries(net) < set(net.state_dict())


def test_a_net_that_never_narrows_ends_in_its_last_layer() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3))
    assert output_layer(net) is net[1] and head_entries(net) == {"1.weight", "1.bias"}


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
