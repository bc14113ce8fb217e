"""Tent: affine parameters of norms only, entropy down, and a clear word where there is nothing to train."""

import pytest
import torch
from routed_nets import NETS, expert_net, images, make_experts
from super_models import random_super_model

from fedsuper.errors import FedSuperError
from fedsuper.inference.modes.base import create_mode
from fedsuper.inference.modes.tent import TentAdapter, TentKnobs
from fedsuper.inference.norm_statistics import use_test_statistics
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.routing.loss import entropy
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.train.device import Compute

CPU = Compute(torch.device("cpu"))


def adapter(name: str = "unet-batch", **options: object) -> TentAdapter:
    config = NETS[name]
    return TentAdapter(expert_net(config, make_experts(config)[0]), TentKnobs(**options), CPU)


@pytest.mark.parametrize("name", ["unet-batch", "plain-batch", "plain-instance"])
def test_learning_rate_zero_is_the_image_statistics_baseline(name):
    config, x = NETS[name], images(1)
    with torch.no_grad():
        baseline = use_test_statistics(expert_net(config, make_experts(config)[0]), "image")(x)
    assert torch.equal(adapter(name, lr=0.0, steps=3).logits(x), baseline)


def test_only_norm_parameters_move_and_entropy_falls():
    one, x = adapter(lr=0.01, steps=20), images(1)
    before = {name: tensor.clone() for name, tensor in one.net.state_dict().items()}
    with torch.no_grad():
        at_first = entropy(one.net(x)).mean()
    at_last = entropy(one.logits(x)).mean()
    assert 0 <= at_last < at_first
    trained = {id(parameter) for parameter in one.parameters}
    for name, parameter in one.net.named_parameters():
        assert torch.equal(parameter, before[name]) == (id(parameter) not in trained)


def test_online_carries_on_and_reset_does_not():
    first, second = images(1, seed=1), images(1, seed=2)
    carried, reset = adapter(lr=0.05, online=True), adapter(lr=0.05, online=False)
    alone = adapter(lr=0.05).logits(second)
    carried.logits(first), reset.logits(first)
    assert torch.equal(reset.logits(second), alone)
    assert not torch.equal(carried.logits(second), alone)


def test_a_net_without_affine_norms_is_refused_with_advice():
    predictor = Predictor(random_super_model())  # instance norm, no affine
    with pytest.raises(FedSuperError, match="train with model.norm: batch"):
        create_mode(predictor, "tent")


def test_mode_predicts_every_slice():
    predictor = Predictor(random_super_model(model={"channels": [4, 8], "residual_units": 0, "norm": "batch"}))
    outcome = create_mode(predictor, "tent").predict(SliceBatch(predictor, [images(3, size=32), images(1, size=32)]))
    assert outcome.probabilities.shape == (4, 2, 32, 32) and outcome.chosen == ["tent"] * 4
