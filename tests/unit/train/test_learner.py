"""A learner steps as its optimizer says, keeps its optimizer's state, and hands over what it was asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from fedsuper.config import OptimizerConfig
from fedsuper.train.checkpoint import digest
from fedsuper.train.device import Compute
from fedsuper.train.learner import Batch, GradientLearner, Learner, make_optimizer
from fedsuper.train.losses import dice_bce_loss

CPU = Compute(torch.device("cpu"))


def make_net(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 1, 1))


def make_batch(seed: int = 0, count: int = 4) -> Batch:
    random = torch.Generator().manual_seed(seed)
    images = torch.randn(count, 1, 8, 8, generator=random)
    return Batch(images, (images > 0.3).float(), torch.arange(count), lambda: make_batch(seed + 1, count))


def make_learner(kind: type[Learner] = Learner, compute: Compute = CPU, **optimizer: Any) -> Learner:
    net = make_net()
    steps = make_optimizer(list(net.parameters()), OptimizerConfig(**optimizer))
    return kind("global", net, steps, dice_bce_loss, compute)


@pytest.mark.parametrize("name", ["adam", "amsgrad", "sgd"])
def test_a_step_is_the_optimizers_step_on_the_losses_gradient(name: str) -> None:
    learner, batch = make_learner(name=name, lr=0.1), make_batch()
    by_hand = make_net()
    kind: Any = torch.optim.SGD if name == "sgd" else torch.optim.Adam
    optimizer = kind(by_hand.parameters(), 0.1, **({"amsgrad": True} if name == "amsgrad" else {}))
    for _ in range(3):
        optimizer.zero_grad()
        loss = dice_bce_loss(by_hand(batch.images), batch.masks)
        loss.backward()
        optimizer.step()
        assert torch.equal(learner.step(batch), loss.detach())
    assert digest(learner.state()) == digest(by_hand.state_dict()) and learner.steps == 3


@pytest.mark.parametrize("options", [{}, {"name": "amsgrad"}, {"name": "sgd", "momentum": 0.9}, {"name": "sgd"}])
def test_a_learner_that_is_put_away_and_taken_out_goes_on_bit_for_bit(options: dict[str, Any]) -> None:
    whole, first = make_learner(**options), make_learner(**options)
    for seed in range(4):
        whole.step(make_batch(seed))
    for seed in range(2):
        first.step(make_batch(seed))
    second = make_learner(**options)
    second.net.load_state_dict(first.state())
    second.load_optimizer_state(first.optimizer_state())
    for seed in range(2, 4):
        second.step(make_batch(seed))
    assert digest(second.state()) == digest(whole.state())
    assert digest(second.optimizer_state()) == digest(whole.optimizer_state())


def test_optimizer_state_is_named_by_parameter_and_shares_no_memory() -> None:
    learner = make_learner()
    learner.step(make_batch())
    state = learner.optimizer_state()
    assert set(state) == {f"{slot}|{name}" for slot in ("step", "exp_avg", "exp_avg_sq")
                          for name, _ in learner.net.named_parameters()}
    before = digest(state)
    learner.step(make_batch(1))
    assert digest(state) == before


@pytest.mark.parametrize("name", ["adam", "amsgrad", "sgd"])
def test_a_fused_optimizer_is_put_away_and_taken_out_too(name: str) -> None:
    """As on CUDA, where the step counts lie on the device; torch has the fused kernels for the processor as well."""
    def fused() -> Learner:
        learner = make_learner(name=name, momentum=0.9)
        options = {key: value for key, value in learner.optimizer.defaults.items() if key not in ("foreach", "fused")}
        kind: Any = type(learner.optimizer)
        learner.optimizer = kind(learner.net.parameters(), **{**options, "fused": True})
        return learner

    whole, first, second = fused(), fused(), fused()
    for seed in range(4):
        whole.step(make_batch(seed))
    for seed in range(2):
        first.step(make_batch(seed))
    second.net.load_state_dict(first.state())
    second.load_optimizer_state(first.optimizer_state())
    for seed in range(2, 4):
        second.step(make_batch(seed))
    assert digest(second.state()) == digest(whole.state())


def test_optimizers_step_all_parameters_together() -> None:
    for name in ("adam", "sgd"):
        defaults = make_learner(name=name).optimizer.defaults
        assert defaults["foreach"] and not defaults["fused"]


def test_a_penalty_is_added_to_the_loss() -> None:
    plain, held = make_learner(), make_learner()
    held.penalty = lambda net: sum((weight.square().sum() for weight in net.parameters()), torch.zeros(()))
    with torch.no_grad():
        extra = held.penalty(held.net)
    assert torch.equal(held.objective(make_batch()), plain.objective(make_batch()) + extra)


def test_gradients_can_be_asked_for_and_put_in_place() -> None:
    learner, other, batch = make_learner(name="sgd", lr=0.5), make_learner(name="sgd", lr=0.5), make_batch()
    found = learner.gradient_of(learner.objective(batch))
    assert all(parameter.grad is None for parameter in learner.parameters), "left alone"
    other.gradients(batch)
    for gradient, parameter in zip(found, other.parameters, strict=True):
        assert parameter.grad is not None and torch.equal(gradient, parameter.grad)
    origin = [weight.detach().clone() for weight in learner.parameters]
    learner.move_to(origin, found, -0.5)
    other.step(batch)
    for one, two in zip(learner.parameters, other.parameters, strict=True):
        assert torch.allclose(one, two, atol=1e-7)
    learner.move_to(origin, found, 0)
    assert all(torch.equal(one, two) for one, two in zip(learner.parameters, origin, strict=True))


def test_a_parameter_without_influence_has_a_zero_gradient() -> None:
    learner = make_learner()
    learner.net.register_parameter("unused", nn.Parameter(torch.ones(2)))
    assert torch.equal(learner.gradient_of(learner.objective(make_batch()))[0], torch.zeros(2))


def test_a_gradient_learner_gives_the_mean_over_images_and_does_not_move() -> None:
    """Batches of different size weigh by their images."""
    learner = make_learner(GradientLearner)
    learner.net.eval()  # batch statistics would make the parts differ from the whole
    assert isinstance(learner, GradientLearner)
    before = digest(learner.state())
    parts = [make_batch(0, 4), make_batch(5, 2)]
    for part in parts:
        learner.step(part)
    assert digest(learner.state()) == before and learner.images == 6

    def objective(images: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        return dice_bce_loss(learner.net(images), masks)

    whole = objective(*(torch.cat([getattr(part, name) for part in parts]) for name in ("images", "masks")))
    expected = torch.autograd.grad(whole, learner.parameters)
    for found, wanted in zip(learner.mean_gradient(), expected, strict=True):
        assert torch.allclose(found, wanted, atol=1e-6)


def test_an_untouched_gradient_learner_gives_zeros() -> None:
    learner = make_learner(GradientLearner)
    assert isinstance(learner, GradientLearner)
    assert all(float(gradient.abs().sum()) == 0 for gradient in learner.mean_gradient())


def test_bf16_trains_in_full_precision_weights() -> None:
    learner = make_learner(compute=Compute(torch.device("cpu"), amp="bf16"), lr=0.02)
    seen: list[torch.dtype] = []
    learner.net[0].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    losses = [float(learner.step(make_batch())) for _ in range(20)]
    assert set(seen) == {torch.bfloat16} and losses[-1] < losses[0]
    assert all(weight.dtype == torch.float32 for weight in learner.parameters)
