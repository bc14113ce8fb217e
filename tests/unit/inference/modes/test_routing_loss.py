"""The unsupervised loss: known values, the separable window, switches and presets."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsuper.config import RoutingConfig
from fedsuper.inference.routing.loss import RoutingLoss, consistency, entropy, spread


def logits(seed: int, shape: tuple[int, ...] = (2, 2, 16, 16)) -> torch.Tensor:
    return 3 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_shape_of_a_constant_map_is_zero():
    assert spread(torch.full((1, 2, 20, 20), 0.3), 5).abs().max() == 0


def test_shape_of_a_square_is_its_border_band():
    """11 x 11 ones at radius 3: a 17 x 17 square sees a one, 5 x 5 of it sees ones only, 289 - 25 = 264."""
    square = torch.zeros(1, 1, 40, 40)
    square[..., 10:21, 12:23] = 1
    assert spread(square, 3).sum() == 264


@given(radius=st.integers(1, 7), height=st.integers(3, 20), width=st.integers(3, 20), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_two_short_windows_are_the_square_window(radius, height, width, seed):
    p = torch.rand(1, 2, height, width, generator=torch.Generator().manual_seed(seed))
    size = 2 * radius + 1
    square = torch.stack([
        torch.stack([p[..., max(0, y - radius):y - radius + size, max(0, x - radius):x - radius + size].amax((2, 3))
                     - p[..., max(0, y - radius):y - radius + size, max(0, x - radius):x - radius + size].amin((2, 3))
                     for x in range(width)], -1) for y in range(height)], -2)
    assert torch.equal(spread(p, radius), square)


@given(value=st.floats(-200, 200))
@settings(deadline=None)
def test_entropy_is_that_of_a_coin(value):
    found = float(entropy(torch.tensor(value, dtype=torch.float64)))
    p, q = (1 / (1 + math.exp(-sign * value)) for sign in (1, -1))
    assert -1e-12 <= found <= math.log(2) + 1e-12
    # torch takes softplus for linear beyond 20 and is then off by up to exp(-20)
    assert found == pytest.approx(-p * math.log(p) - q * math.log(q), abs=3e-9)


def test_consistency_is_the_mean_over_pixels_of_the_squared_distance():
    a, b = torch.zeros(1, 2, 4, 4), torch.full((1, 2, 4, 4), 0.5)
    assert consistency(a, b) == pytest.approx(0.5)
    assert consistency(a, a) == 0


def test_terms_are_means_so_a_larger_image_weighs_no_more():
    loss = RoutingLoss.from_config(RoutingConfig(radius=1))
    flat, flat_noisy = torch.full((1, 2, 16, 16), 0.4), torch.full((1, 2, 16, 16), -0.1)
    double = [one.repeat(1, 1, 2, 2) for one in (flat, flat_noisy)]
    assert float(loss(flat, flat_noisy)) == pytest.approx(float(loss(*double)), rel=1e-6)


def test_each_term_can_be_switched_off_and_they_add_up():
    z, noisy = logits(0), logits(1)
    p = torch.sigmoid(z)
    terms = {
        "consistency": consistency(p, torch.sigmoid(noisy)),
        "shape": 0.01 * spread(p, 10).sum(1).mean(),
        "entropy": 0.01 * entropy(z).sum(1).mean(),
    }
    for name, expected in terms.items():
        alone = RoutingConfig(**{other: other == name for other in terms})
        assert torch.allclose(RoutingLoss.from_config(alone)(z, noisy), expected)
    assert torch.allclose(RoutingLoss.from_config(RoutingConfig())(z, noisy), sum(terms.values()))
    nothing = RoutingConfig(consistency=False, shape=False, entropy=False)
    assert RoutingLoss.from_config(nothing)(z, noisy) == 0


def test_presets():
    released = RoutingLoss.from_config(RoutingConfig(preset="as-released"))
    assert (released.consistency, released.shape, released.entropy) == (0.1, 0.0, 10.0)
    paper = RoutingLoss.from_config(RoutingConfig(beta=0.05, radius=4))
    assert (paper.consistency, paper.shape, paper.entropy, paper.radius) == (1.0, 0.05, 0.05, 4)
