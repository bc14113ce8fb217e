"""Per-FedAvg and pFedMe: what each computes on problems that can be solved by hand."""

from __future__ import annotations

import pytest
import torch
from toy import MakeToy, gradient, half_square, hessian, samples, vector

from fedsuper.core.supermodel import GLOBAL
from fedsuper.errors import FedSuperError
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.train.learner import Batch

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


# --- Per-FedAvg -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hessian_term", ["dropped", "free"])
def test_per_fedavg_with_alpha_zero_is_fedavg(toy: MakeToy, hessian_term: str) -> None:
    plain = toy("fedavg", batch_size=5, optimizer="adam").rounds(3)
    meta = toy("per-fedavg", {"alpha": 0, "hessian": hessian_term}, batch_size=5, optimizer="adam").rounds(3)
    assert torch.equal(meta.weights, plain.weights)


def meta_gradient(toy: MakeToy, knobs: dict) -> tuple[torch.Tensor, torch.Tensor]:
    """The learner's direction and autograd's gradient of f(w - a grad f(w)), all on one batch."""
    federation = toy("per-fedavg", {"alpha": 0.2, **knobs}, data=[samples(0, 12)])
    site, data = federation.site("site-0"), federation.data["site-0"]
    (learner,) = federation.method.learners(site)
    batch = Batch(data.images, data.masks, torch.arange(12), lambda: batch)
    before = learner.state()
    learner.gradients(batch)
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.state().items()), "weights are put back"
    found = torch.cat([p.grad.reshape(-1) for p in learner.net.parameters()])

    net = site.segmentation(federation.server.models[GLOBAL])
    names, weights = zip(*net.named_parameters(), strict=True)
    call = torch.func.functional_call
    inner = half_square(call(net, dict(zip(names, weights, strict=True)), (data.images,)), data.masks)
    slopes = torch.autograd.grad(inner, weights, create_graph=True)
    moved = {name: w - 0.2 * slope for name, w, slope in zip(names, weights, slopes, strict=True)}
    exact = torch.autograd.grad(half_square(call(net, moved, (data.images,)), data.masks), weights)
    return found, torch.cat([slope.reshape(-1) for slope in exact])


def test_the_hessian_free_form_matches_autograd(toy: MakeToy) -> None:
    found, exact = meta_gradient(toy, {"hessian": "free"})
    torch.testing.assert_close(found, exact, rtol=1e-7, atol=1e-9)


def test_the_first_order_form_does_not_but_is_the_gradient_after_one_step(toy: MakeToy) -> None:
    found, exact = meta_gradient(toy, {"hessian": "dropped"})
    assert not torch.allclose(found, exact, rtol=1e-2)
    federation = toy("per-fedavg", data=[samples(0, 12)])
    data, start = federation.data["site-0"], federation.weights
    torch.testing.assert_close(found, gradient(start - 0.2 * gradient(start, data), data), **CLOSE)


def test_the_central_difference_is_the_hessian_times_the_vector(toy: MakeToy) -> None:
    federation = toy("per-fedavg", {"alpha": 0.2, "hessian": "free"}, data=[samples(0, 12)])
    (learner,) = federation.method.learners(federation.site("site-0"))
    data = federation.data["site-0"]
    batch = Batch(data.images, data.masks, torch.arange(12), lambda: batch)
    random = torch.Generator().manual_seed(0)
    origin = [p.detach().clone() for p in learner.parameters]
    direction = [torch.randn(p.shape, generator=random, dtype=p.dtype) for p in origin]
    found = torch.cat([part.reshape(-1) for part in learner._hessian_times(origin, direction, batch)])
    expected = hessian(data) @ torch.cat([part.reshape(-1) for part in direction])
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9)


def test_per_fedavg_deploys_one_gradient_step_from_the_global_model(toy: MakeToy) -> None:
    federation = toy("per-fedavg", {"alpha": 0.2}, batch_size=5).rounds(2)
    for name, data in federation.data.items():
        shown = federation.method.candidates(federation.site(name))
        torch.testing.assert_close(
            vector(shown[PERSONAL]), federation.weights - 0.2 * gradient(federation.weights, data), **CLOSE
        )
        assert torch.equal(vector(shown[GLOBAL]), federation.weights)
    assert all(PERSONAL not in store.models for store in federation.stores.values()), "no client state"


# --- pFedMe ---------------------------------------------------------------------------------------------------------


EXACT = {"lambda": 2.0, "inner_steps": 120, "inner_lr": 0.2, "eta": 0.1}


def prox_point(start: torch.Tensor, leash: float, data) -> torch.Tensor:
    """argmin f(theta) + leash/2 |theta - start|^2 in closed form."""
    matrix = hessian(data)
    slope_at_zero = gradient(torch.zeros_like(start), data)
    return torch.linalg.solve(matrix + leash * torch.eye(len(start), dtype=start.dtype), leash * start - slope_at_zero)


def test_theta_is_the_prox_point_and_its_pull_the_gradient(toy: MakeToy) -> None:
    federation = toy("pfedme", EXACT)
    start = federation.weights.clone()
    federation.round()
    for name, data in federation.data.items():
        theta = federation.stored(PERSONAL, name)
        torch.testing.assert_close(theta, prox_point(start, 2.0, data), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(2.0 * (start - theta), gradient(theta, data), rtol=1e-9, atol=1e-9)
        anchor = vector(federation.uploads[name][GLOBAL])
        torch.testing.assert_close(anchor, start - 0.1 * 2.0 * (start - theta), **CLOSE)


def test_a_short_leash_holds_theta_at_w(toy: MakeToy) -> None:
    gaps = []
    for leash in (1.0, 10.0, 1000.0):
        knobs = {"lambda": leash, "inner_steps": 100, "inner_lr": 1 / (leash + 5), "eta": 1e-4}
        federation = toy("pfedme", knobs).rounds(1)
        gaps.append(float((federation.stored(PERSONAL) - vector(federation.first)).norm()))
    assert gaps == sorted(gaps, reverse=True) and gaps[-1] < 0.01


def test_beta_zero_fixes_the_server_and_between_it_mixes(toy: MakeToy) -> None:
    fixed, half, full = (toy("pfedme", EXACT | {"beta": beta}).rounds(1) for beta in (0, 0.5, 1))
    assert torch.equal(fixed.weights, vector(fixed.first))
    torch.testing.assert_close(half.weights, (vector(half.first) + full.weights) / 2, **CLOSE)


def test_eta_lambda_one_makes_the_server_the_mean_of_the_thetas(toy: MakeToy) -> None:
    federation = toy("pfedme", EXACT | {"eta": 0.5}).rounds(1)
    mean = sum(
        share * federation.stored(PERSONAL, name)
        for share, name in zip(federation.shares, federation.data, strict=True)
    )
    torch.testing.assert_close(federation.weights, mean, **CLOSE)


def test_pfedmes_fixed_point_balances_the_pulls(toy: MakeToy) -> None:
    knobs = {"lambda": 0.5, "eta": 2.0, "inner_steps": 10, "inner_lr": 0.3}
    federation = toy("pfedme", knobs, data=[samples(0, 20), samples(1, 40)]).rounds(40)
    before = federation.weights.clone()
    federation.round()
    pulls = sum(
        share * (before - federation.stored(PERSONAL, name))
        for share, name in zip(federation.shares, federation.data, strict=True)
    )
    assert pulls.norm() < 1e-6


def test_an_overshooting_pull_is_refused(toy: MakeToy) -> None:
    with pytest.raises(FedSuperError, match="eta \\* lambda"):
        toy("pfedme", {"lambda": 15, "eta": 0.1})
