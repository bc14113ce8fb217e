"""The routed net's PReLU: torch's values and gradients, without torch's slow way to them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from fedsuper.models.routed.prelu import prelu


@pytest.mark.parametrize("slopes", [[0.25], [0.25, 0.0, -0.5, 2.0]])
@pytest.mark.parametrize("images", [1, 3])
def test_values_and_gradients_are_torchs(slopes: list[float], images: int) -> None:
    random = torch.Generator().manual_seed(0)
    maps = torch.randn(images, 4, 33, 17, generator=random)
    maps[..., ::5] = 0.0
    weight = torch.randn(maps.shape, generator=random)
    found = []
    for function in (F.prelu, prelu):
        inputs, steep = maps.clone().requires_grad_(), torch.tensor(slopes, requires_grad=True)
        out = function(inputs, steep)
        (out * weight).sum().backward()
        found.append((out.detach(), inputs.grad, steep.grad))
    (out, by_input, by_slope), (own, own_by_input, own_by_slope) = found
    assert torch.equal(own, out) and by_input is not None and own_by_input is not None
    assert torch.equal(own_by_input, by_input)
    torch.testing.assert_close(own_by_slope, by_slope, rtol=1e-5, atol=1e-4)


def test_a_gradient_does_not_ask_torchs_prelu() -> None:
    maps, slopes = torch.randn(1, 4, 8, 8, requires_grad=True), torch.full((4,), 0.25, requires_grad=True)
    with torch.autograd.profiler.profile() as profile:
        prelu(maps, slopes).sum().backward()
    seen = [event.name for event in profile.function_events]
    assert not [name for name in seen if "prelu_kernel_backward" in name]
    assert [name for name in seen if "threshold_backward" in name]


def test_other_types_are_torchs() -> None:
    maps, slopes = torch.randn(1, 4, 8, 8).double().requires_grad_(), torch.full((4,), 0.25).double()
    assert torch.equal(prelu(maps, slopes), F.prelu(maps, slopes))
