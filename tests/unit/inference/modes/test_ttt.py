"""Test-time training: the encoder alone adapts, no step is the trained model, order plays no part."""

import pytest
import torch
from routed_nets import NETS, expert_net, images, make_experts, random_of
from super_models import random_super_model
from torch import nn

from fedsuper.errors import FedSuperError
from fedsuper.inference.artifact import load_super_model, save_super_model
from fedsuper.inference.modes.base import create_mode
from fedsuper.inference.modes.ttt import RotationAdapter, TTTKnobs
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.models.rotation import (
    ROTATION_HEAD,
    RotationHead,
    deepest_features,
    encoder_parameters,
    rotation_loss,
    turned,
)
from fedsuper.train.device import Compute

CPU = Compute(torch.device("cpu"))
EVERY_NET = pytest.mark.parametrize("config", NETS.values(), ids=NETS.keys())


def head_for(net: nn.Module) -> RotationHead:
    head = RotationHead(deepest_features(net, images()).shape[1])
    with torch.no_grad():
        head.weight.copy_(torch.randn(head.weight.shape, generator=random_of(1)))
    return head


def adapter(config, **options: object) -> RotationAdapter:
    net = expert_net(config, make_experts(config)[0])
    return RotationAdapter(net, head_for(net), TTTKnobs(**options), CPU)


@EVERY_NET
def test_the_deepest_features_are_the_encoders_output(config):
    net = expert_net(config, make_experts(config)[0])
    features = deepest_features(net, images())
    assert features.shape[2] < images().shape[2]
    assert features.shape[1] == max(m.in_channels for m in net.modules() if isinstance(m, nn.ConvTranspose2d))
    assert not any(module._forward_pre_hooks for module in net.modules())


@pytest.mark.slow
@EVERY_NET
@torch.no_grad()
def test_no_step_is_the_trained_model(config):
    expected = expert_net(config, make_experts(config)[0])(images())
    assert torch.equal(adapter(config, steps=0).logits(images()), expected)


@pytest.mark.slow
@EVERY_NET
def test_encoder_and_head_adapt_and_the_decoder_stays(config):
    one = adapter(config, lr=0.1, steps=2)
    net = one.both["net"]
    encoder = {id(parameter) for parameter in encoder_parameters(net, images(1))}
    before = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}
    one.logits(images(1))
    changed = {id(p) for name, p in net.named_parameters() if not torch.equal(p, before[name])}
    assert changed and changed <= encoder
    assert len(encoder) < len(before)


def test_steps_lower_the_rotation_loss():
    config = NETS["plain-instance"]
    one, x = adapter(config, lr=0.05, steps=10), images(1)
    copies, turns = turned(x)

    def loss() -> float:
        with torch.no_grad():
            return float(rotation_loss(one.both["net"], one.both["head"], copies, turns))

    before = loss()
    one.logits(x)
    assert loss() < before


def test_reset_makes_the_order_irrelevant_and_online_does_not():
    config = NETS["unet-instance"]
    first, second = images(1, seed=1), images(1, seed=2)
    alone = adapter(config, lr=0.1).logits(second)
    reset, online = adapter(config, lr=0.1), adapter(config, lr=0.1, online=True)
    reset.logits(first), online.logits(first)
    assert torch.equal(reset.logits(second), alone)
    assert not torch.equal(online.logits(second), alone)


def test_turns_are_the_four_quarter_turns():
    copies, turns = turned(torch.arange(8.0).reshape(2, 1, 2, 2))
    assert turns.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert torch.equal(copies[4:6], copies[:2].flip(2, 3))
    assert torch.equal(torch.rot90(copies[6:], 1, (2, 3)), copies[:2])


def test_a_net_without_a_decoder_is_refused():
    with pytest.raises(FedSuperError, match="transposed"):
        deepest_features(nn.Conv2d(3, 2, 3), images())


def test_mode_needs_the_head_and_finds_it_in_the_folder(tmp_path):
    super_model = random_super_model()
    with pytest.raises(FedSuperError, match="method: ttt"):
        create_mode(Predictor(super_model), "ttt")
    predictor = Predictor(super_model)
    features = deepest_features(predictor.build("global"), images(1, size=32))
    super_model.extras = {ROTATION_HEAD: RotationHead(features.shape[1]).state_dict()}
    save_super_model(super_model, tmp_path / "sm")
    found = load_super_model(tmp_path / "sm")
    assert torch.equal(found.extras[ROTATION_HEAD]["weight"], super_model.extras[ROTATION_HEAD]["weight"])
    loaded = Predictor(found)
    outcome = create_mode(loaded, "ttt").predict(SliceBatch(loaded, [images(2, size=32)]))
    assert outcome.probabilities.shape == (2, 2, 32, 32) and outcome.chosen == ["ttt"] * 2
