"""The global model with the test images' own norm statistics."""

from dataclasses import replace

import pytest
import torch
from routed_nets import NETS, expert_net, images, make_experts
from super_models import random_super_model
from torch import nn

from fedsuper.inference.modes.base import create_mode
from fedsuper.inference.norm_statistics import FreshNorm, use_test_statistics
from fedsuper.inference.overrides import override_prediction, prediction_switches
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch


@pytest.mark.parametrize("name", ["unet-batch", "plain-batch"])
@torch.no_grad()
def test_image_statistics_are_those_of_each_image_alone(name):
    config = NETS[name]
    net = expert_net(config, make_experts(config)[0])
    reference = expert_net(config, make_experts(config)[0]).train()
    x = images(3)
    expected = torch.cat([reference(one[None]) for one in x])  # BatchNorm in training mode, one image at a time
    fresh = use_test_statistics(net, "image")
    assert torch.allclose(fresh(x), expected, atol=1e-5)
    assert sum(isinstance(module, FreshNorm) for module in fresh.modules()) > 0


@torch.no_grad()
def test_batch_statistics_are_those_of_the_batch():
    config = NETS["unet-batch"]
    state, x = make_experts(config)[0], images(3)
    expected = expert_net(config, state).train()(x)
    assert torch.allclose(use_test_statistics(expert_net(config, state), "batch")(x), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["unet-instance", "plain-instance"])
@torch.no_grad()
def test_instance_norm_has_them_by_nature(name):
    config = NETS[name]
    state, x = make_experts(config)[0], images()
    net = expert_net(config, state)
    before = net(x)
    assert torch.equal(use_test_statistics(net, "image")(x), before)
    assert not any(isinstance(module, FreshNorm) for module in net.modules())


def test_running_statistics_leave_the_net_alone():
    net = nn.Sequential(nn.BatchNorm2d(2))
    assert isinstance(use_test_statistics(net, "running")[0], nn.BatchNorm2d)


def test_mode_leaves_the_shared_global_net_alone():
    predictor = Predictor(random_super_model(model={"channels": [4, 8], "residual_units": 0, "norm": "batch"}))
    batch = SliceBatch(predictor, list(images(2, size=32).split(1)))
    before = predictor.logits("global", batch.images)
    outcome = create_mode(predictor, "global-stats").predict(batch)
    assert outcome.chosen == ["global-stats"] * 2
    assert torch.equal(predictor.logits("global", batch.images), before)
    assert not torch.allclose(outcome.probabilities, before.sigmoid(), atol=1e-3)


@pytest.mark.parametrize("statistics", ["running", "image", "batch"])
@pytest.mark.parametrize("mode", ["global", "tent", "route", "select", "ensemble", "mix", "agree"])
def test_one_switch_holds_in_every_mode(mode, statistics):
    """With untuned gates, no step and five equal models, all modes give what the one net gives."""
    model = random_super_model(model={"channels": [4, 8], "residual_units": 0, "norm": "batch"})
    equal = replace(model, personal=dict.fromkeys(model.sites, model.global_model))
    still = ["routing.epochs=0", "modes.tent.steps=0"]
    switched = override_prediction(equal, [*prediction_switches(norm_statistics=statistics), *still])
    x = images(1, size=32)
    with torch.no_grad():
        expected = use_test_statistics(Predictor(equal).build("global"), statistics)(x).sigmoid()
    outcome = create_mode(Predictor(switched), mode).predict(SliceBatch(Predictor(switched), [x]))
    assert torch.allclose(outcome.probabilities, expected, atol=1e-4)
