"""FedDG: the bank's way through the federation, and the episode's gradient."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from toy import MakeToy, Toy, half_square

from fedsuper.core.spectrum import low_amplitudes
from fedsuper.core.supermodel import GLOBAL
from fedsuper.data.prepared.samples import Samples
from fedsuper.methods.feddg import BANK, EpisodicLearner
from fedsuper.train.learner import Batch


def pictures(seed: int, count: int = 6) -> Samples:
    random = torch.Generator().manual_seed(seed)
    images = torch.rand(count, 3, 8, 8, generator=random, dtype=torch.float64) + seed
    masks = torch.zeros(count, 1, 8, 8, dtype=torch.uint8)
    masks[:, :, 2:6, 2:6] = 1
    names = [f"image-{index}" for index in range(count)]
    return Samples(images, masks, names, names)


def smooth_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 4, 1), nn.Tanh(), nn.Conv2d(4, 1, 1)
    ).double()


@pytest.fixture
def federation(toy: MakeToy) -> Toy:
    return toy(
        "feddg", {"window": 0.2, "bank": 4}, data=[pictures(0), pictures(1), pictures(2)], net=smooth_net, lr=0.05
    )


def test_spectra_go_up_once_and_everybodys_come_down(federation: Toy) -> None:
    federation.round(absent=["site-2"])
    assert all(BANK in models for models in federation.uploads.values())
    assert {key for key in federation.method.downlink(federation.server, "site-2") if key != GLOBAL} == {
        f"{BANK}/site-0",
        f"{BANK}/site-1",
    }
    federation.round()
    assert [name for name, models in federation.uploads.items() if BANK in models] == ["site-2"]
    federation.round()
    assert not any(BANK in models for models in federation.uploads.values())
    found = federation.server.models[f"{BANK}/site-2"]["amplitudes"]
    assert torch.equal(found, low_amplitudes(pictures(2).images[:4], 0.2)) and found.shape == (4, 3, 3, 3)


def test_a_site_never_borrows_its_own_look(federation: Toy) -> None:
    federation.round()
    (learner,) = federation.method.learners(federation.site("site-1"))
    assert isinstance(learner, EpisodicLearner)
    others = [federation.server.models[f"{BANK}/site-{index}"]["amplitudes"] for index in (0, 2)]
    assert torch.equal(learner.bank, torch.cat(others))


def test_without_another_sites_spectra_training_is_fedavg(toy: MakeToy) -> None:
    data = [pictures(0), pictures(1)]
    plain = toy("fedavg", data=data, net=smooth_net, batch_size=2).rounds(1)
    shared = toy("feddg", data=data, net=smooth_net, batch_size=2).rounds(1)
    assert torch.equal(plain.weights, shared.weights)
    alone = toy("feddg", data=data[:1], net=smooth_net).rounds(3)
    assert torch.equal(alone.weights, toy("fedavg", data=data[:1], net=smooth_net).rounds(3).weights)


def episode(federation: Toy) -> tuple[EpisodicLearner, Batch]:
    federation.round()
    site = federation.site("site-0")
    (learner,) = federation.method.learners(site)
    assert isinstance(learner, EpisodicLearner)
    batch = Batch(site.train.images, site.train.masks.double(), torch.arange(6), lambda: batch)
    return learner, batch


def test_the_step_is_the_gradient_here_plus_the_gradient_one_step_ahead(federation: Toy) -> None:
    learner, batch = episode(federation)
    before, random = learner.state(), learner.random.get_state()
    learner.gradients(batch)
    found = [p.grad.clone() for p in learner.parameters]
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.state().items()), "weights are put back"

    learner.random.set_state(random)
    restyled = learner.restyle(batch.images)
    here = learner.gradient_of(half_square(learner.net(batch.images), batch.masks))
    origin = [p.detach().clone() for p in learner.parameters]
    learner.move_to(origin, here, -0.001)
    ahead = learner.gradient_of(learner.transfer_loss(batch.images, restyled, batch.masks))
    for mine, first, second in zip(found, here, ahead, strict=True):
        torch.testing.assert_close(mine, first + second, rtol=1e-12, atol=1e-12)


def test_restyling_keeps_shape_and_phase_and_moves_towards_the_bank(federation: Toy) -> None:
    learner, batch = episode(federation)
    learner.bank = learner.bank[:1]
    target = learner.bank[0]
    before = (low_amplitudes(batch.images, 0.2) - target).abs()
    after = (low_amplitudes(learner.restyle(batch.images), 0.2) - target).abs()
    assert (after <= before + 1e-9).all() and (after < before).any()


def test_the_boundary_contrast_reads_the_features_before_the_head(federation: Toy) -> None:
    learner, batch = episode(federation)
    restyled = learner.restyle(batch.images)
    with_contrast = learner.gradient_of(learner.transfer_loss(batch.images, restyled, batch.masks))
    learner.knobs = learner.knobs.model_copy(update={"contrast": 0.0})
    without = learner.gradient_of(learner.transfer_loss(batch.images, restyled, batch.masks))
    moved = [not torch.allclose(a, b, rtol=0, atol=1e-12) for a, b in zip(with_contrast, without, strict=True)]
    assert moved == [True, True, True, True, False, False], "the contrast trains what lies before the output layer"


def test_the_method_warns_that_it_shares_image_statistics(federation: Toy) -> None:
    (line,) = federation.method.check(["a", "b"])
    assert "image statistics leave the sites" in line and "image statistics" in federation.method.travels
