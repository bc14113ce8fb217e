"""The routed net: one-hot rows are experts, gates are all that learns, rows follow their convolution."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from routed_nets import NETS, SIZE, build, expert_net, images, make_experts, random_of, routed
from torch import nn

from fedsuper.config import RoutingConfig
from fedsuper.errors import FedSuperError
from fedsuper.inference.norm_statistics import use_test_statistics
from fedsuper.models.routed.gate import Gate
from fedsuper.models.routed.layers import RoutedConv, _Mix
from fedsuper.models.routed.routed_net import RoutedNet

EVERY_NET = pytest.mark.parametrize("config", NETS.values(), ids=NETS.keys())


@EVERY_NET
@pytest.mark.parametrize("statistics", ["image", "batch", "running"])
@torch.no_grad()
def test_one_hot_coefficients_are_the_expert(config, statistics):
    experts, x = make_experts(config), images(3)
    net = routed(config, experts, norm_statistics=statistics)
    for index, state in enumerate(experts):
        expected = use_test_statistics(expert_net(config, state), statistics)(x)
        row = torch.eye(len(experts))[index]
        net.pin(row)
        assert (net(x) - expected).abs().max() < 1e-5
        for layer in net.layers.values():  # a row per image: the grouped path
            layer.pinned = row.expand(len(x), -1)
        assert (net(x) - expected).abs().max() < 1e-5


@EVERY_NET
@torch.no_grad()
def test_identical_experts_give_that_model(config):
    state, x = make_experts(config, 1)[0], images()
    net = routed(config, [state] * 4, norm_statistics="running")
    for parameter in net.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=random_of(5)))
    assert (net(x) - expert_net(config, state)(x)).abs().max() < 1e-5


@EVERY_NET
def test_only_gates_learn_and_all_of_them_do(config):
    experts, x = make_experts(config), images()
    before = [{name: tensor.clone() for name, tensor in state.items()} for state in experts]
    net = routed(config, experts)
    assert all("gate" in name for name, _ in net.named_parameters())
    optimizer = torch.optim.Adam(net.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    ungated = [name for name, parameter in net.named_parameters() if parameter.grad is None]
    assert not ungated
    assert sum(float(parameter.grad.abs().sum()) > 0 for parameter in net.parameters()) > len(net.layers)
    for state, kept in zip(experts, before, strict=True):
        assert all(torch.equal(state[name], kept[name]) for name in state)


@EVERY_NET
@pytest.mark.parametrize("level", ["layer", "global"])
@pytest.mark.parametrize("gate", ["input", "static"])
@pytest.mark.parametrize("normalize", [True, False])
@torch.no_grad()
def test_start_is_exactly_one_over_the_number_of_experts(config, level, gate, normalize):
    experts = make_experts(config, 7)
    net = routed(config, experts, level=level, gate=gate, normalize=normalize)
    net(100 * images())
    rows = net.coefficients()
    assert len(rows) == sum(isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)) for module in build(config).modules())
    assert all(torch.equal(row, torch.full((7,), 1 / 7)) for row in rows.values())


@given(experts=st.integers(2, 12), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_normalized_rows_are_convex_and_unnormalized_ones_are_sigmoids(experts, seed):
    random = random_of(seed)
    normal, plain = (Gate(5, experts, "input", normalize, random_of(1)) for normalize in (True, False))
    with torch.no_grad():
        for one, other in zip(normal.parameters(), plain.parameters(), strict=True):
            one.copy_(torch.randn(one.shape, generator=random))
            other.copy_(one)
        hidden = torch.randn(4, 5, 3, 3, generator=random)
        convex, free = normal(hidden), plain(hidden)
    assert torch.allclose(convex.sum(1), torch.ones(4)) and (convex >= 0).all()
    pooled = torch.relu(hidden.mean((2, 3)) @ plain.inner_weight.T + plain.inner_bias)
    assert torch.allclose(free, torch.sigmoid(pooled @ plain.weight.T + plain.bias), atol=1e-6)
    assert torch.allclose(convex, free / free.sum(1, keepdim=True), atol=1e-6)


@EVERY_NET
def test_norm_and_prelu_follow_the_convolution_that_ran_before_them(config):
    """A net put together by hand, each layer whole from another expert, found by a trace of what runs after what."""
    experts, x = make_experts(config), images()
    template, owner, current = build(config), {}, [0]

    def trace(name):
        def hook(module, _inputs):
            if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
                current[0] += 1
            owner[name] = current[0] % len(experts)
        return hook

    leaves = {name: module for name, module in template.named_modules() if not list(module.children())}
    hooks = [module.register_forward_pre_hook(trace(name)) for name, module in leaves.items()]
    template.eval()(x)
    for hook in hooks:
        hook.remove()
    by_hand = {entry: experts[owner[entry.rpartition(".")[0]]][entry] for entry in template.state_dict()}
    net = routed(config, experts, norm_statistics="running")
    net.pin({name: torch.eye(len(experts))[owner[name]] for name in net.layers})
    with torch.no_grad():
        assert (net(x) - expert_net(config, by_hand)(x)).abs().max() < 1e-5


@torch.no_grad()
def test_rows_are_listed_in_the_order_layers_run():
    config = NETS["unet-instance"]
    net = routed(config, make_experts(config))
    order: list[str] = []
    for name, layer in net.layers.items():
        layer.register_forward_pre_hook(lambda *_, name=name: order.append(name))
    net(images())
    assert list(net.coefficients()) == order and set(order) == set(net.layers)


@torch.no_grad()
def test_an_image_is_routed_alike_alone_and_in_company():
    config = NETS["unet-batch"]
    net = routed(config, make_experts(config), norm_statistics="image")
    for parameter in net.parameters():
        parameter.add_(0.5 * torch.randn(parameter.shape, generator=random_of(2)))
    x = images(3)
    together, alone = net(x), torch.cat([net(one[None]) for one in x])
    assert (together - alone).abs().max() < 1e-5
    net(x)
    rows = next(iter(net.route.rows.values()))
    assert not torch.allclose(rows[0], rows[1])


@torch.no_grad()
def test_global_level_has_one_row_for_all_layers():
    config = NETS["plain-batch"]
    net = routed(config, make_experts(config), level="global")
    for parameter in net.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=random_of(2)))
    net(images())
    rows = list(net.coefficients().values())
    assert all(torch.equal(row, rows[0]) for row in rows)
    assert {name.partition(".")[0] for name, _ in net.named_parameters()} == {"image_gate"}


def test_mixing_has_the_gradient_of_the_plain_sum():
    random = random_of(0)
    experts = [torch.randn(2, 3, 3, 3, generator=random, dtype=torch.float64) for _ in range(4)]
    rows = torch.rand(2, 4, generator=random, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda r: _Mix.apply(r, *experts), (rows,))
    expected = torch.einsum("be,eoihw->boihw", rows, torch.stack(experts))
    assert torch.allclose(_Mix.apply(rows, *experts), expected)


def test_kernels_are_shared_with_the_super_model_not_copied():
    config = NETS["unet-instance"]
    experts = make_experts(config)
    net = routed(config, experts)
    for name, layer in net.layers.items():
        for index, state in enumerate(experts):
            assert getattr(layer, f"kernel_{index}").data_ptr() == state[f"{name}.weight"].data_ptr()
    own = sum(b.numel() * b.element_size() for n, b in net.named_buffers() if ".kernel_" not in n)
    assert own / len(experts) < 100_000
    assert not any("kernel" in name or "running" in name for name in net.state_dict())


def test_unusable_super_models_are_refused_in_one_line():
    config = NETS["unet-instance"]
    experts = make_experts(config)
    with pytest.raises(FedSuperError, match="holds 1"):
        routed(config, experts[:1])
    with pytest.raises(FedSuperError, match="entries differ"):
        routed(config, [experts[0], {"other": torch.zeros(1)}])
    with pytest.raises(FedSuperError, match="Linear"):
        net = nn.Sequential(nn.Conv2d(3, 2, 1), nn.Linear(SIZE, SIZE))
        RoutedNet(net, [net.state_dict()] * 2, RoutingConfig(), random_of(0))
    with pytest.raises(FedSuperError, match="no"):
        RoutedNet(nn.Identity(), [{}, {}], RoutingConfig(), random_of(0))


@torch.no_grad()
def test_image_statistics_of_a_single_pixel_are_refused():
    config = NETS["unet-batch"]
    net = routed(config, make_experts(config), norm_statistics="image")
    with pytest.raises(FedSuperError, match="larger image_size"):
        net(images(1, size=4))


def test_grouped_and_transposed_convolutions_mix_per_image():
    """The grouped layout against a loop over images, for every option a convolution has here."""
    for conv in (
        nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2, dilation=1),
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        nn.Conv1d(4, 2, 3, padding=1, bias=False),
    ):
        shapes = {name: parameter.shape for name, parameter in conv.named_parameters()}
        experts = [{n: torch.randn(s, generator=random_of(seed)) for n, s in shapes.items()} for seed in range(3)]
        states = [{f"0.{name}": tensor for name, tensor in expert.items()} for expert in experts]
        net = RoutedNet(nn.Sequential(conv), states, RoutingConfig(), random_of(1))
        layer = net.net[0]
        assert isinstance(layer, RoutedConv)
        layer.pinned = torch.rand(5, 3, generator=random_of(2))
        x = torch.randn((5, 4, 8, 8) if not isinstance(conv, nn.Conv1d) else (5, 4, 8), generator=random_of(3))
        with torch.no_grad():
            mixed = net(x)
            for index, row in enumerate(layer.pinned):
                for name, parameter in conv.named_parameters():
                    parameter.copy_(sum(r * s[name] for r, s in zip(row, experts, strict=True)))
                assert (mixed[index] - conv(x[index][None])[0]).abs().max() < 1e-5
