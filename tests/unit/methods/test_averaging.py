"""FedAvg, FedProx, Scaffold: what each computes on problems that can be solved by hand."""

from __future__ import annotations

import pytest
import torch
from toy import MakeToy, Toy, gradient, hessian, optimum, pooled, samples, two_layer_net, vector

from fedsuper.core.supermodel import GLOBAL
from fedsuper.methods.scaffold import CONTROL

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def distance_to_optimum(toy: Toy) -> float:
    return float((toy.weights - optimum(pooled(list(toy.data.values())))).norm())


# --- FedAvg ---------------------------------------------------------------------------------------------------------


def test_one_full_batch_step_of_fedavg_is_the_pooled_gradient_step(toy: MakeToy) -> None:
    federation = toy("fedavg")
    start = federation.weights.clone()
    federation.round()
    expected = start - 0.1 * gradient(start, pooled(list(federation.data.values())))
    torch.testing.assert_close(federation.weights, expected, **CLOSE)


def test_an_absent_site_leaves_the_average_to_the_others(toy: MakeToy) -> None:
    federation = toy("fedavg")
    start = federation.weights.clone()
    federation.round(absent=["site-1"])
    present = pooled([federation.data["site-0"], federation.data["site-2"]])
    torch.testing.assert_close(federation.weights, start - 0.1 * gradient(start, present), **CLOSE)


def test_centralized_training_is_the_same_step_on_pooled_data(toy: MakeToy) -> None:
    parts = [samples(index, size) for index, size in enumerate((12, 20, 28))]
    alone = toy("centralized", data=[pooled(parts)]).rounds(1)
    together = toy("fedavg", data=parts).rounds(1)
    torch.testing.assert_close(alone.weights, together.weights, **CLOSE)


def test_local_training_never_meets_the_other_sites(toy: MakeToy) -> None:
    together = toy("local").rounds(3)
    alone = toy("local", data=[samples(0, 12)]).rounds(3)
    assert torch.equal(together.stored("personal"), alone.stored("personal"))
    assert together.uploads == {"site-0": {}, "site-1": {}, "site-2": {}}


def test_a_site_that_joins_local_training_late_starts_from_the_first_weights(toy: MakeToy) -> None:
    late = toy("local")
    late.round(absent=["site-0"])
    late.round()
    prompt = toy("local").rounds(1)
    torch.testing.assert_close(late.stored("personal"), prompt.stored("personal"), **CLOSE)


# --- FedProx --------------------------------------------------------------------------------------------------------


def test_fedprox_with_mu_zero_is_fedavg(toy: MakeToy) -> None:
    assert torch.equal(
        toy("fedprox", {"mu": 0}, local_epochs=4).rounds(3).weights, toy("fedavg", local_epochs=4).rounds(3).weights
    )


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_first_step_of_a_round_does_not_depend_on_mu(toy: MakeToy, optimizer: str) -> None:
    weak, strong = (toy("fedprox", {"mu": mu}, optimizer=optimizer).rounds(1) for mu in (0.01, 10.0))
    torch.testing.assert_close(weak.weights, strong.weights, **CLOSE)


def test_drift_decreases_with_mu(toy: MakeToy) -> None:
    drifts = []
    for mu in (0.0, 0.3, 1.0, 3.0):
        federation = toy("fedprox", {"mu": mu}, local_epochs=5).rounds(1)
        uploads = [vector(models[GLOBAL]) for models in federation.uploads.values()]
        drifts.append(sum(float((upload - vector(federation.first)).norm()) for upload in uploads))
    assert drifts == sorted(drifts, reverse=True) and len(set(drifts)) == len(drifts)


def test_the_penalty_is_mu_halves_times_the_square(toy: MakeToy) -> None:
    """Two steps by hand: the second feels mu (w - w_g), not 2 mu (w - w_g)."""
    federation = toy("fedprox", {"mu": 0.5}, data=[samples(0, 12)], local_epochs=2)
    data, start = federation.data["site-0"], federation.weights.clone()
    first = start - 0.1 * gradient(start, data)
    second = first - 0.1 * (gradient(first, data) + 0.5 * (first - start))
    torch.testing.assert_close(federation.rounds(1).weights, second, **CLOSE)


# --- Scaffold -------------------------------------------------------------------------------------------------------


def control_gap(federation: Toy) -> float:
    """|c - sum_k p_k c_k|."""
    own = [federation.stores[site].models.get(CONTROL) for site in federation.data]
    mean = sum(share * vector(c) for share, c in zip(federation.shares, own, strict=True) if c is not None)
    return float((vector(federation.server.models[CONTROL]) - mean).norm())


def test_scaffold_with_one_site_is_sgd(toy: MakeToy) -> None:
    data = [samples(0, 12)]
    corrected, plain = (toy(name, data=data, local_epochs=5).rounds(4) for name in ("scaffold", "fedavg"))
    torch.testing.assert_close(corrected.weights, plain.weights, **CLOSE)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_scaffolds_first_round_is_fedavg(toy: MakeToy, optimizer: str) -> None:
    corrected, plain = (toy(name, local_epochs=5, optimizer=optimizer).rounds(1) for name in ("scaffold", "fedavg"))
    assert torch.equal(corrected.weights, plain.weights)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_servers_control_is_the_mean_of_the_sites(toy: MakeToy, optimizer: str) -> None:
    federation = toy("scaffold", local_epochs=3, optimizer=optimizer)
    for absent in ([], ["site-1"], ["site-0", "site-2"], []):
        federation.round(absent)
        assert control_gap(federation) < 1e-12


def test_scaffold_reaches_the_pooled_optimum_where_fedavg_does_not(toy: MakeToy) -> None:
    data = [samples(0, 40), samples(1, 60)]
    corrected = toy("scaffold", data=data, local_epochs=5, lr=0.4).rounds(80)
    plain = toy("fedavg", data=data, local_epochs=5, lr=0.4).rounds(40)
    assert distance_to_optimum(corrected) < 1e-11
    assert distance_to_optimum(plain) > 1e-3


def test_the_local_step_is_g_minus_own_control_plus_shared_control(toy: MakeToy) -> None:
    federation = toy("scaffold", local_epochs=1).rounds(1)
    start, data = federation.weights.clone(), federation.data["site-0"]
    c, own = vector(federation.server.models[CONTROL]), vector(federation.stores["site-0"].models[CONTROL])
    federation.round()
    expected = start - 0.1 * (gradient(start, data) - own + c)
    torch.testing.assert_close(vector(federation.uploads["site-0"][GLOBAL]), expected, **CLOSE)


def test_a_control_is_the_mean_direction_of_its_sites_steps(toy: MakeToy) -> None:
    """With SGD the mean gradient along the way: c_k = mean_i grad f_k(y_i)."""
    federation = toy("scaffold", data=[samples(0, 12)], local_epochs=3)
    data, y, slopes = federation.data["site-0"], federation.weights.clone(), []
    for _ in range(3):
        slopes.append(gradient(y, data))
        y = y - 0.1 * slopes[-1]
    federation.round()
    torch.testing.assert_close(federation.stored(CONTROL), torch.stack(slopes).mean(dim=0), **CLOSE)


def test_no_step_taken_leaves_the_control_alone(toy: MakeToy) -> None:
    federation = toy("scaffold").rounds(1)
    before = federation.stored(CONTROL).clone()
    site = federation.site("site-0")
    learners = {learner.role: learner for learner in federation.method.learners(site)}
    sent = federation.method.uplink(site, learners)
    assert torch.equal(federation.stored(CONTROL), before)
    assert vector(sent[CONTROL]).abs().max() == 0


def test_an_absent_site_keeps_its_control(toy: MakeToy) -> None:
    federation = toy("scaffold").rounds(1)
    before = federation.stored(CONTROL).clone()
    federation.round(absent=["site-0"])
    assert torch.equal(federation.stored(CONTROL), before)


def test_controls_cover_parameters_only_and_statistics_are_averaged(toy: MakeToy) -> None:
    federation = toy("scaffold", net=two_layer_net).rounds(2)
    assert not any("running" in name or "tracked" in name for name in federation.server.models[CONTROL])
    expected = sum(
        share * models[GLOBAL]["1.running_mean"]
        for share, models in zip(federation.shares, federation.uploads.values(), strict=True)
    )
    torch.testing.assert_close(federation.server.models[GLOBAL]["1.running_mean"], expected, **CLOSE)


def test_the_toy_problem_is_what_it_claims() -> None:
    data = samples(0, 12)
    assert gradient(optimum(data), data).norm() < 1e-12
    assert torch.linalg.eigvalsh(hessian(data)).min() > 0
