"""The FedSM family: the selector's three ways of training, and any personalization."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from linear_selector import linear_selector
from toy import SIZES, MakeToy, make_toy, samples, vector

from fedsuper.config.reading import parse_study
from fedsuper.core.aggregate import soft_pull
from fedsuper.core.supermodel import gate
from fedsuper.methods import create_method
from fedsuper.methods.parts.selector import FIRST_MOMENT, STEP
from fedsuper.methods.protocol import nets
from fedsuper.methods.protocol.role import PERSONAL, SELECTOR

KINDS = ["softpull", "ft", "apfl", "per-fedavg", "pfedme"]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> MakeToy:
    """Toy federations with a linear selector."""
    monkeypatch.setattr(nets, "selector_net", lambda study, task, classes: linear_selector(classes))
    return functools.partial(make_toy, monkeypatch)


# --- the selector ---------------------------------------------------------------------------------------------------


def test_server_adam_is_centralized_training_with_balanced_classes(toy: MakeToy) -> None:
    federation = toy("fedsm", batch_size=5, selector={"lr": 0.01})
    net = linear_selector(3)
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(4):
        optimizer.zero_grad()
        losses = [
            F.cross_entropy(net(part.images), torch.full((len(part.images),), label))
            for label, part in enumerate(federation.data.values())
        ]
        torch.stack(losses).mean().backward()
        optimizer.step()
        federation.round()
    torch.testing.assert_close(
        vector(federation.server.models[SELECTOR]), vector(net.state_dict()), rtol=1e-5, atol=1e-6
    )


def test_synced_moments_take_one_full_batch_step_from_the_servers_moments(toy: MakeToy) -> None:
    """With one site both ways are the same Adam; with several the averaged weights differ."""
    options: dict[str, Any] = {"data": [samples(0, 12)]}
    synced, server = (
        toy("fedsm", selector={"optimizer": kind}, **options).rounds(3) for kind in ("synced-moments", "server-adam")
    )
    torch.testing.assert_close(vector(synced.server.models[SELECTOR]), vector(server.server.models[SELECTOR]))
    many = toy("fedsm", selector={"optimizer": "synced-moments"}).rounds(2)
    expected = sum(vector(models[FIRST_MOMENT]) for models in many.uploads.values()) / len(SIZES)
    torch.testing.assert_close(vector(many.server.models[FIRST_MOMENT]), expected, rtol=1e-12, atol=1e-12)
    assert many.server.models[STEP]["step"] == 2


@pytest.mark.parametrize("policy", ["keep", "reset"])
def test_local_selector_training_steps_per_batch_and_follows_the_optimizer_policy(toy: MakeToy, policy: str) -> None:
    federation = toy(
        "fedsm", data=[samples(0, 12)], selector={"optimizer": "local", "lr": 0.01}, batch_size=6, state=policy
    )
    federation.rounds(2)
    kept = federation.stores["site-0"].models.get("optimizer/selector")
    assert (kept is not None) == (policy == "keep")
    if kept is not None:
        assert kept["step|1.weight"] == 4, (
            "two batches a round, and the second round went on from the first one's moments"
        )


def test_an_absent_site_does_not_train_its_class(toy: MakeToy) -> None:
    federation = toy("fedsm", selector={"lr": 0.05})
    for _ in range(10):
        federation.round(absent=["site-1"])
    bias = federation.server.models[SELECTOR]["1.bias"]
    assert bias[1] < min(bias[0], bias[2])


def test_a_site_that_never_came_has_no_model_to_choose(toy: MakeToy) -> None:
    federation = toy("fedsm")
    for _ in range(2):
        federation.round(absent=["site-1"])
    super_model = federation.method.super_model(federation.server)
    assert list(super_model.personal) == ["site-0", "site-2"] and super_model.sites == ["site-0", "site-1", "site-2"]


# --- FedSM ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["fedsm", "fedsm-extra"])
def test_the_global_model_is_fedavgs_whatever_the_personalization(toy: MakeToy, kind: str, method: str) -> None:
    """So gamma = 1, which always takes the global model, gives FedAvg's result exactly."""
    plain = toy("fedavg", batch_size=5, optimizer="adam").rounds(3)
    federation = toy(method, {"personal": kind}, batch_size=5, optimizer="adam").rounds(3)
    assert torch.equal(federation.weights, plain.weights)


def test_a_perfect_selector_gives_every_site_its_own_model() -> None:
    q = torch.eye(3).repeat_interleave(4, dim=0)
    assert gate(q, 0.999).tolist() == torch.arange(3).repeat_interleave(4).tolist()


def test_softpull_mixes_the_raw_uploads(toy: MakeToy) -> None:
    federation = toy("fedsm", {"lambda": 0.6}, local_epochs=2).rounds(2)
    expected = soft_pull({name: models[PERSONAL] for name, models in federation.uploads.items()}, 0.6)
    for name, state in expected.items():
        assert torch.equal(vector(federation.server.models[f"{PERSONAL}/{name}"]), vector(state))


def test_softpull_leaves_out_who_is_absent(toy: MakeToy) -> None:
    federation = toy("fedsm").rounds(1)
    before = vector(federation.server.models[f"{PERSONAL}/site-1"]).clone()
    federation.round(absent=["site-1"])
    assert torch.equal(vector(federation.server.models[f"{PERSONAL}/site-1"]), before)
    pair = soft_pull({name: models[PERSONAL] for name, models in federation.uploads.items()}, 0.7)
    assert torch.equal(vector(federation.server.models[f"{PERSONAL}/site-0"]), vector(pair["site-0"]))


def test_a_lambda_below_one_over_k_is_warned_of(toy: MakeToy) -> None:
    method = toy("fedsm", {"lambda": 0.2}).method
    assert (
        method.check(["a", "b", "c"]) and not method.check(["a", "b", "c", "d", "e", "f"]) and not method.check(["a"])
    )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "softpull"])
def test_a_personalization_inside_fedsm_is_the_method_itself(toy: MakeToy, kind: str) -> None:
    alone = toy(kind, batch_size=5, optimizer="adam").rounds(3)
    inside = toy("fedsm", {"personal": kind}, batch_size=5, optimizer="adam").rounds(3)
    expected, found = alone.finish().personal, inside.finish().personal
    assert all(torch.equal(vector(found[name]), vector(expected[name])) for name in alone.data)


def test_all_models_of_a_study_start_from_the_same_weights(toy: MakeToy) -> None:
    server = toy("fedsm", {"personal": "pfedme"}).server
    states = [state for key, state in server.models.items() if not key.startswith("selector")]
    assert len(states) == 2 and all(torch.equal(vector(state), vector(states[0])) for state in states)


def test_unknown_personalizations_are_refused() -> None:
    with pytest.raises(Exception, match="personal"):
        create_method(parse_study({"method": "fedsm", "fedsm": {"personal": "magic"}}))
