"""The small selector: cheap, independent of image size and batch, and quick to learn what tells cameras apart."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedsuper.data.synthetic.retina import render
from fedsuper.data.synthetic.retina_sites import hospital
from fedsuper.models.selector_small import SmallSelector


def seeded_selector(seed: int, channels: int = 3, classes: int = 6) -> SmallSelector:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SmallSelector(channels, classes)


@pytest.mark.parametrize(("channels", "size"), [(3, (32, 32)), (1, (64, 96)), (3, (150, 131))])
def test_any_image_size_gives_one_logit_per_site(channels: int, size: tuple[int, int]) -> None:
    net = seeded_selector(0, channels, 4)
    images = torch.randn(2, channels, *size, generator=torch.Generator().manual_seed(0))
    assert net(images).shape == (2, 4)
    assert net.features(images).shape == (2, net.head.in_features)


def test_it_is_small_and_keeps_no_statistics() -> None:
    net = seeded_selector(0)
    assert sum(weight.numel() for weight in net.parameters()) <= 300_000
    assert not list(net.buffers())


def test_an_image_is_judged_alone() -> None:
    net = seeded_selector(0)
    images = torch.randn(5, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(net(images)[2:3], net(images[2:3]))


def test_a_constant_image_has_finite_gradients() -> None:
    """The spread of a constant map is zero, where a square root has no derivative."""
    net = seeded_selector(0)
    functional.cross_entropy(net(torch.zeros(2, 3, 64, 64)), torch.tensor([0, 1])).backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in net.parameters())


def test_forty_steps_on_the_averaged_gradient_tell_six_hospitals_apart() -> None:
    def standardized(index: int, seed: int, count: int) -> torch.Tensor:
        images = np.concatenate([stack for stack, _ in render(hospital(index), [seed, index], count, 64)])
        pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float()
        return (pixels - pixels.mean((1, 2, 3), keepdim=True)) / pixels.std((1, 2, 3), keepdim=True)

    train = [standardized(index, 0, 12) for index in range(6)]
    test = [standardized(index, 1, 16) for index in range(6)]
    net = seeded_selector(0)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(40):
        optimizer.zero_grad()
        for label, images in enumerate(train):
            (functional.cross_entropy(net(images), torch.full((len(images),), label)) / 6).backward()
        optimizer.step()
    with torch.no_grad():
        recall = [(net(images).argmax(1) == label).float().mean().item() for label, images in enumerate(test)]
    assert np.mean(recall) >= 0.95


@pytest.mark.parametrize("side", [64, 128, 192, 256])
def test_without_gradients_the_logits_have_the_same_bits(side: int) -> None:
    selector, images = SmallSelector(3, 4), torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        quick = selector(images)
    assert torch.equal(quick, selector(images).detach())
