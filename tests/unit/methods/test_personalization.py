"""FT, APFL, IOP-FL: what each computes on problems that can be solved by hand."""

from __future__ import annotations

import pytest
import torch
from toy import MakeToy, gradient, optimum, samples, two_layer_net, vector

from fedsuper.core.aggregate import moving_average
from fedsuper.core.supermodel import GLOBAL
from fedsuper.errors import FedSuperError
from fedsuper.methods.apfl import ALPHA, OWN
from fedsuper.methods.protocol.role import PERSONAL

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.parametrize("method", ["ft", "apfl", "iop-fl"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_global_branch_is_fedavg(toy: MakeToy, method: str, optimizer: str) -> None:
    plain = toy("fedavg", local_epochs=2, batch_size=5, optimizer=optimizer).rounds(3)
    personal = toy(method, local_epochs=2, batch_size=5, optimizer=optimizer).rounds(3)
    assert torch.equal(personal.weights, plain.weights)


@pytest.mark.parametrize("method", ["apfl", "pfedme", "iop-fl"])
def test_an_absent_site_keeps_its_personalized_model(toy: MakeToy, method: str) -> None:
    federation = toy(method).rounds(2)
    before = {role: vector(state).clone() for role, state in federation.stores["site-0"].models.items()}
    federation.round(absent=["site-0"])
    after = {role: vector(state) for role, state in federation.stores["site-0"].models.items()}
    assert before.keys() == after.keys() and all(torch.equal(before[role], after[role]) for role in before)


# --- FT -------------------------------------------------------------------------------------------------------------


def test_fine_tuning_by_no_step_deploys_the_global_model(toy: MakeToy) -> None:
    federation = toy("ft", {"epochs": 0}).rounds(2)
    super_model = federation.finish()
    assert all(torch.equal(vector(state), federation.weights) for state in super_model.personal.values())


def test_fine_tuning_lowers_the_local_loss_and_reaches_the_local_optimum(toy: MakeToy) -> None:
    federation = toy("ft", {"epochs": 120, "lr": 0.6}, data=[samples(0, 30), samples(1, 30)]).rounds(1)
    for site, state in federation.finish().personal.items():
        assert federation.site(site).dice(state) > federation.site(site).dice(federation.server.models[GLOBAL])
        torch.testing.assert_close(vector(state), optimum(federation.data[site]), rtol=1e-6, atol=1e-6)


def test_fine_tuning_that_hurts_is_not_deployed(toy: MakeToy) -> None:
    federation = toy("ft", {"epochs": 3, "lr": 50.0}).rounds(2)
    assert all(torch.equal(vector(state), federation.weights) for state in federation.finish().personal.values())


# --- APFL -----------------------------------------------------------------------------------------------------------


def test_apfl_with_alpha_zero_freezes_v_and_deploys_the_local_copy(toy: MakeToy) -> None:
    federation = toy("apfl", {"alpha": 0}, local_epochs=2).rounds(2)
    torch.testing.assert_close(federation.stored(OWN), vector(federation.first), **CLOSE)
    torch.testing.assert_close(federation.stored(PERSONAL), vector(federation.uploads["site-0"][GLOBAL]), **CLOSE)


def test_apfl_with_alpha_one_is_local_training(toy: MakeToy) -> None:
    federation = toy("apfl", {"alpha": 1}, local_epochs=2).rounds(3)
    alone = toy("local", local_epochs=2).rounds(3)
    torch.testing.assert_close(federation.stored(OWN), alone.stored(PERSONAL), **CLOSE)
    torch.testing.assert_close(federation.stored(PERSONAL), alone.stored(PERSONAL), **CLOSE)


def test_apfls_step_carries_the_factor_alpha_and_the_updated_copy(toy: MakeToy) -> None:
    federation = toy("apfl", {"alpha": 0.3}, data=[samples(0, 12)])
    data, start = federation.data["site-0"], federation.weights.clone()
    copy = start - 0.1 * gradient(start, data)
    mixed = 0.3 * start + 0.7 * copy
    own = start - 0.1 * 0.3 * gradient(mixed, data)
    federation.round()
    torch.testing.assert_close(federation.stored(OWN), own, **CLOSE)
    torch.testing.assert_close(federation.stored(PERSONAL), 0.3 * own + 0.7 * copy, **CLOSE)


def test_adaptive_alpha_moves_once_a_round_by_the_papers_rule(toy: MakeToy) -> None:
    federation = toy(
        "apfl", {"alpha": 0.3, "adaptive": True}, data=[samples(0, 12), samples(5, 12)], local_epochs=3
    ).rounds(1)
    store, data = federation.stores["site-0"], federation.data["site-0"]
    alpha, own, start = store.values[ALPHA], vector(store.models[OWN]), federation.weights.clone()
    copy = start - 0.1 * gradient(start, data)
    slope = (own - copy) @ gradient(alpha * own + (1 - alpha) * copy, data) + 0.02 * alpha
    federation.round()
    assert store.values[ALPHA] == pytest.approx(float(alpha - 0.1 * slope), abs=1e-12)
    assert store.values[ALPHA] != federation.stores["site-1"].values[ALPHA]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_adaptive_alpha_stays_in_the_unit_interval(toy: MakeToy, alpha: float) -> None:
    federation = toy("apfl", {"alpha": alpha, "adaptive": True}, lr=0.5).rounds(4)
    assert all(0 <= store.values[ALPHA] <= 1 for store in federation.stores.values())


def test_the_mixture_has_statistics_of_its_own(toy: MakeToy) -> None:
    federation = toy("apfl", {"alpha": 0.5}, net=two_layer_net).rounds(2)
    mixture, copy = federation.stores["site-0"].models[PERSONAL], federation.uploads["site-0"][GLOBAL]
    assert not torch.equal(mixture["1.running_mean"], copy["1.running_mean"])
    assert mixture.keys() == copy.keys() and (mixture["1.running_var"] >= 0).all()


# --- IOP-FL ---------------------------------------------------------------------------------------------------------


def test_tau_one_is_the_local_copy_and_tau_zero_the_first_model(toy: MakeToy) -> None:
    last, first = (toy("iop-fl", {"tau": tau}, net=two_layer_net).rounds(3) for tau in (1, 0))
    for name in last.data:
        assert torch.equal(last.stored(PERSONAL, name), vector(last.uploads[name][GLOBAL]))
        assert torch.equal(first.stored(PERSONAL, name), vector(first.first))


def test_the_global_model_does_not_depend_on_tau(toy: MakeToy) -> None:
    assert torch.equal(toy("iop-fl", {"tau": 0.1}).rounds(3).weights, toy("iop-fl", {"tau": 0.9}).rounds(3).weights)


def test_the_mean_of_the_adapted_models_is_the_moving_average_of_the_global_ones(toy: MakeToy) -> None:
    federation = toy("iop-fl", {"tau": 0.7})
    expected = federation.weights.clone()
    for _ in range(4):
        federation.round()
        expected = 0.3 * expected + 0.7 * federation.weights
    mean = sum(
        share * federation.stored(PERSONAL, name)
        for share, name in zip(federation.shares, federation.data, strict=True)
    )
    torch.testing.assert_close(mean, expected, **CLOSE)


def test_equation_4_as_printed_decays_to_zero(toy: MakeToy) -> None:
    """P <- (1 - tau) P - tau (gradients) forgets the model: at an optimum there are no gradients, only the decay."""
    federation = toy("iop-fl", data=[samples(0, 20)], lr=0.3).rounds(60)
    literal = vector(federation.first).clone()
    for _ in range(60):
        literal = 0.1 * literal - 0.9 * (0.3 * 2 * gradient(federation.weights, federation.data["site-0"]))
    assert literal.norm() < 1e-3 < federation.stored(PERSONAL).norm()


def test_the_adapted_model_shares_no_memory_and_copies_counters(toy: MakeToy) -> None:
    federation = toy("iop-fl", net=two_layer_net).rounds(2)
    adapted, sent = federation.stores["site-0"].models[PERSONAL], federation.uploads["site-0"][GLOBAL]
    assert all(adapted[name].data_ptr() != sent[name].data_ptr() for name in sent)
    assert adapted["1.num_batches_tracked"] == sent["1.num_batches_tracked"] == 2
    with pytest.raises(FedSuperError, match="tau"):
        moving_average(adapted, sent, 1.5)
