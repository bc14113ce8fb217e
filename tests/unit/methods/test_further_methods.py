"""SoftPull on its own, Ditto, FedOpt, FedSoup and IOP-FL's average: each against what its equations say."""

from __future__ import annotations

import pytest
import torch
from toy import MakeToy, gradient, optimum, two_layer_net, vector

from fedsuper.core.aggregate import soft_pull
from fedsuper.core.state import combine
from fedsuper.core.supermodel import GLOBAL
from fedsuper.methods.fedsoup import POOL, POOLED

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
PERSONAL = "personal"


# --- SoftPull alone -------------------------------------------------------------------------------------------------


def test_softpull_is_fedsms_personalized_part(toy: MakeToy) -> None:
    alone = toy("softpull", {"lambda": 0.6}, local_epochs=2).rounds(2)
    uploads = {site: models[PERSONAL] for site, models in alone.uploads.items()}
    for site, pulled in soft_pull(uploads, 0.6).items():
        torch.testing.assert_close(vector(alone.server.models[f"{PERSONAL}/{site}"]), vector(pulled), **CLOSE)
    assert set(next(iter(alone.uploads.values()))) == {PERSONAL}
    super_model = alone.finish()
    assert super_model.global_model is None and set(super_model.personal) == set(alone.data)


def test_similar_weights_change_the_pull_and_lambda_one_does_not_pull(toy: MakeToy) -> None:
    def models(**knobs: object) -> torch.Tensor:
        federation = toy("softpull", knobs).rounds(3)
        return torch.stack([vector(federation.server.models[f"{PERSONAL}/{site}"]) for site in federation.data])

    assert not torch.allclose(models(weights="similar"), models(weights="uniform"))
    assert torch.equal(models(**{"weights": "similar", "lambda": 1}), models(**{"lambda": 1}))


# --- Ditto ----------------------------------------------------------------------------------------------------------


def test_dittos_global_model_is_fedavgs_for_any_lambda(toy: MakeToy) -> None:
    plain = toy("fedavg", local_epochs=3).rounds(3).weights
    for strength in (0.0, 1.0, 5.0):
        torch.testing.assert_close(toy("ditto", {"lambda": strength}, local_epochs=3).rounds(3).weights, plain, **CLOSE)


def test_ditto_without_a_spring_is_local_training(toy: MakeToy) -> None:
    free = toy("ditto", {"lambda": 0}, local_epochs=3).rounds(3)
    torch.testing.assert_close(free.stored(PERSONAL), toy("local", local_epochs=3).rounds(3).stored(PERSONAL), **CLOSE)


@pytest.mark.slow
def test_dittos_model_solves_its_own_problem_and_nears_the_global_one(toy: MakeToy) -> None:
    distances = []
    for strength in (1.0, 3.0, 9.0):
        federation = toy("ditto", {"lambda": strength}, lr=0.1, local_epochs=120).rounds(2)
        own = federation.stored(PERSONAL)
        sent = vector(toy("fedavg", lr=0.1, local_epochs=120).rounds(1).server.models[GLOBAL])
        slope = gradient(own, federation.data["site-0"]) + strength * (own - sent)
        assert float(slope.norm()) < 1e-6
        distances.append(float((own - sent).norm()))
    assert distances == sorted(distances, reverse=True)


# --- FedOpt ---------------------------------------------------------------------------------------------------------


def test_momentum_without_memory_is_fedavg(toy: MakeToy) -> None:
    still = toy("fedopt", {"optimizer": "momentum", "beta1": 0}, local_epochs=2).rounds(3)
    torch.testing.assert_close(still.weights, toy("fedavg", local_epochs=2).rounds(3).weights, **CLOSE)


@pytest.mark.parametrize("kind", ["adam", "yogi"])
def test_the_adaptive_steps_are_the_papers(toy: MakeToy, kind: str) -> None:
    federation = toy("fedopt", {"optimizer": kind, "lr": 0.1, "tau": 0.01})
    m, v = torch.zeros(4, dtype=torch.float64), torch.full((4,), 1e-4, dtype=torch.float64)
    for _ in range(3):
        start = federation.weights.clone()
        federation.round()
        g = start - sum(p * vector(models[GLOBAL]) for p, models in zip(
            federation.shares, federation.uploads.values(), strict=True))
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g**2 if kind == "adam" else v - 0.01 * g**2 * torch.sign(v - g**2)
        torch.testing.assert_close(federation.weights, start - 0.1 * m / (v.sqrt() + 0.01), rtol=1e-9, atol=1e-9)


def test_buffers_are_averaged_not_pushed(toy: MakeToy) -> None:
    pushed = toy("fedopt", {"optimizer": "momentum", "beta1": 0.95}, net=two_layer_net).rounds(4)
    state = pushed.server.models[GLOBAL]
    assert all((tensor >= 0).all() for name, tensor in state.items() if name.endswith("running_var"))
    uploads = [models[GLOBAL] for models in pushed.uploads.values()]
    mean = combine(uploads, pushed.shares)
    assert torch.equal(state["1.running_var"], mean["1.running_var"])


# --- FedSoup --------------------------------------------------------------------------------------------------------


def test_fedsoup_is_fedavg_until_it_starts(toy: MakeToy) -> None:
    waiting = toy("fedsoup", {"start": 1}, local_epochs=2).rounds(3)
    torch.testing.assert_close(waiting.weights, toy("fedavg", local_epochs=2).rounds(3).weights, **CLOSE)
    assert POOL not in waiting.stores["site-0"].models


def test_a_global_model_joins_the_pool_only_where_it_helps_on_validation_images(toy: MakeToy) -> None:
    federation = toy("fedsoup", {"start": 0}, lr=0.3, local_epochs=1)
    for _ in range(5):
        before = {site: int(store.values.get(POOLED, 0)) for site, store in federation.stores.items()}
        sent = {site: federation.site(site) for site in federation.data}
        pools = {site: store.models.get(POOL) for site, store in federation.stores.items()}
        federation.round()
        for site, view in sent.items():
            count, newest = before[site], view.received[GLOBAL]
            joined = int(federation.stores[site].values.get(POOLED, 0)) > count
            soup = federation.uploads[site][GLOBAL]
            if joined:
                mean = combine([pools[site] or newest, newest], [count / (count + 1), 1 / (count + 1)])
                torch.testing.assert_close(federation.stored(POOL, site), vector(mean), **CLOSE)
            assert torch.equal(vector(soup), federation.stored(PERSONAL, site))
    grown = [store.values.get(POOLED, 0) for store in federation.stores.values()]
    assert max(grown) <= 5


def test_a_site_at_its_own_optimum_takes_no_soup(toy: MakeToy) -> None:
    """Trained to its optimum, any share of another model lowers the score: the pool stays empty."""
    federation = toy("fedsoup", {"start": 0}, local_epochs=600).rounds(1)
    torch.testing.assert_close(federation.stored(PERSONAL), optimum(federation.data["site-0"]), rtol=1e-4, atol=1e-4)
    assert federation.stores["site-0"].values.get(POOLED, 0) == 0


# --- IOP-FL's average -----------------------------------------------------------------------------------------------


def test_iop_fl_weighs_sites_by_samples_or_alike(toy: MakeToy) -> None:
    alike = toy("iop-fl", {"average": "sites"}).rounds(1)
    uploads = [vector(models[GLOBAL]) for models in alike.uploads.values()]
    torch.testing.assert_close(alike.weights, torch.stack(uploads).mean(dim=0), **CLOSE)
    assert torch.equal(toy("iop-fl").rounds(2).weights, toy("fedavg").rounds(2).weights)
