"""FedSM-extra and FedSM-ensemble: models first, then the selector alone, from what the models can do."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from linear_selector import linear_selector
from toy import MakeToy, Toy, half_square, make_toy, vector

from fedsuper.core.supermodel import GLOBAL
from fedsuper.methods.fedsm_ensemble import MixingLearner, mixture
from fedsuper.methods.fedsm_extra import EXPERTISE, best_expert, image_losses
from fedsuper.methods.parts.two_phases import EXPERT, FREEZING, SELECTING
from fedsuper.methods.protocol import nets
from fedsuper.methods.protocol.phases import planned_rounds, round_is_due
from fedsuper.methods.protocol.role import SELECTOR
from fedsuper.methods.protocol.server import TRAINING
from fedsuper.train.learner import Batch

KINDS = ["softpull", "ft", "apfl", "per-fedavg", "pfedme"]
TWO_PHASES = ["fedsm-extra", "fedsm-ensemble"]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> MakeToy:
    """Toy federations with a linear selector."""
    monkeypatch.setattr(nets, "selector_net", lambda study, task, classes: linear_selector(classes))
    return functools.partial(make_toy, monkeypatch)


def two_phases(toy: MakeToy, method: str, rounds: int | str = 2, **knobs: Any) -> Toy:
    return toy(method, {"extra_rounds": 3, **knobs}, rounds=rounds)


def score(federation: Toy) -> None:
    """What the engine does before each round: the models that are sent are scored and the best kept."""
    for name in federation.data:
        site = federation.site(name)
        shown = federation.acting.candidates(site)
        for role in federation.method.roles():
            state = shown.get(role.name)
            if state is not None and role.holder == "server" and role.kind == "segmentation":
                federation.server.note_score(role.key(name), site.dice(state), state)
            elif state is not None and role.holder == "site":
                site.keep_best(role.name, site.dice(state), state)


def run_all(federation: Toy, absent: dict[int, list[str]] | None = None) -> list[dict[str, set[str]]]:
    """All rounds of a two-phase study; returns what was sent down in each."""
    sent = []
    for number in range(planned_rounds(federation.study, federation.method.phases()) or 0):
        score(federation)
        sent.append({name: set(federation.acting.downlink(federation.server, name)) for name in federation.data})
        federation.round((absent or {}).get(number, ()))
    return sent


@pytest.mark.slow
@pytest.mark.parametrize("method", TWO_PHASES)
@pytest.mark.parametrize("kind", KINDS)
def test_models_first_then_the_selector_alone(toy: MakeToy, method: str, kind: str) -> None:
    federation = two_phases(toy, method, personal=kind, **{"lambda": 0.7})
    sent = run_all(federation)
    experts = {f"{EXPERT}{index}" for index in range(4)}
    assert all(GLOBAL in keys and SELECTOR not in keys for down in sent[:3] for keys in down.values())
    assert all(keys == {SELECTOR} | experts for keys in sent[3].values())
    assert all(keys == {SELECTOR} for down in sent[4:] for keys in down.values())
    assert all(set(models) == {SELECTOR} for models in federation.uploads.values())
    super_model = federation.method.super_model(federation.server)
    assert list(super_model.personal) == list(federation.data) and super_model.selector["1.weight"].shape == (4, 3)


@pytest.mark.parametrize("method", TWO_PHASES)
def test_experts_are_frozen_and_sent_again_only_to_who_missed_them(toy: MakeToy, method: str) -> None:
    federation = two_phases(toy, method)
    sent = run_all(federation, absent={3: ["site-1"]})
    again = [{name for name, keys in down.items() if f"{EXPERT}0" in keys} for down in sent[3:]]
    assert again == [set(federation.data), {"site-1"}, set()]
    before = {
        key: vector(state).clone() for key, state in federation.server.models.items() if not key.startswith("selector")
    }
    federation.round()
    assert all(torch.equal(vector(federation.server.models[key]), state) for key, state in before.items())


@pytest.mark.parametrize("method", TWO_PHASES)
def test_rounds_auto_begins_the_second_phase_when_training_has_settled(toy: MakeToy, method: str) -> None:
    federation = toy(method, {"extra_rounds": 3}, rounds="auto", patience=5)
    federation.rounds(4)
    assert federation.server.phase == TRAINING and GLOBAL in federation.acting.downlink(federation.server, "site-0")
    federation.round()
    assert (federation.server.phase, federation.server.phase_round) == (FREEZING, 0)
    federation.round()
    assert (federation.server.phase, federation.server.phase_start) == (SELECTING, 6)
    assert SELECTOR in federation.acting.downlink(federation.server, "site-0")
    assert not round_is_due(federation.rounds(3).server, federation.method.phases())


def second_phase_loss(federation: Toy) -> float:
    """The selector's loss over all sites, as things stand."""
    sites = [federation.site(name) for name in federation.data]
    learners = [federation.acting.learners(site)[0] for site in sites]
    return sum(float(learner.objective(whole(site)).detach()) for learner, site in zip(learners, sites, strict=True))


@pytest.mark.parametrize("method", TWO_PHASES)
@pytest.mark.parametrize("optimizer", ["server-adam", "synced-moments", "local"])
def test_every_selector_optimizer_lowers_the_loss_of_the_second_phase(
    toy: MakeToy, method: str, optimizer: str
) -> None:
    federation = toy(method, {"extra_rounds": 9}, rounds=2, selector={"optimizer": optimizer, "lr": 0.01}, lr=0.3)
    for _ in range(4):
        score(federation)
        federation.round()
    before = second_phase_loss(federation)
    federation.rounds(7)
    assert second_phase_loss(federation) < before


def whole(site) -> Batch:
    batch = Batch(site.train.images, site.train.masks, torch.arange(len(site.train)), lambda: batch)
    return batch


def test_a_personal_model_that_never_came_is_stood_in_for_by_the_global_one(toy: MakeToy) -> None:
    federation = two_phases(toy, "fedsm-extra", personal="apfl")
    absent = {number: ["site-2"] for number in range(10)}
    run_all(federation, absent)
    experts = federation.method.experts(federation.server)
    assert torch.equal(vector(experts[f"{EXPERT}3"]), vector(experts[f"{EXPERT}0"])) and len(experts) == 4
    assert "site-2" not in federation.method.super_model(federation.server).personal


def test_identical_experts_label_every_image_with_the_global_model(toy: MakeToy) -> None:
    federation = two_phases(toy, "fedsm-extra")
    site = federation.site("site-0")
    federation.method.selector.receive(site, [federation.first] * 4)
    assert site.store.models[EXPERTISE]["label"].tolist() == [0] * len(site.train)


def test_labels_are_the_argmin_of_the_loss_and_no_fixed_choice_is_better(toy: MakeToy) -> None:
    federation = two_phases(toy, "fedsm-extra")
    site = federation.site("site-1")
    experts = [{name: tensor + shift for name, tensor in federation.first.items()} for shift in (0.0, 0.5, -0.7, 1.0)]
    federation.method.selector.receive(site, experts)
    labels = site.store.models[EXPERTISE]["label"]
    losses = torch.stack(
        [
            (site.segmentation(state)(site.train.images).detach() - site.train.masks).square().flatten() / 2
            for state in experts
        ]
    )
    assert labels.tolist() == losses.argmin(dim=0).tolist() and len(set(labels.tolist())) > 1
    oracle = losses.gather(0, labels[None]).mean()
    assert all(oracle <= fixed for fixed in losses.mean(dim=1))


def test_ties_go_to_the_lowest_index() -> None:
    assert best_expert(torch.tensor([[2.0, 1.0], [1.0, 1.0], [1.0, 1.0]])).tolist() == [1, 0]


def test_image_losses_are_taken_image_by_image() -> None:
    outputs, targets = torch.arange(3.0).view(3, 1, 1, 1), torch.zeros(3, 1, 1, 1)
    assert image_losses(outputs, targets, half_square).tolist() == [0.0, 0.5, 2.0]


def test_a_one_hot_weight_returns_that_expert_and_equal_experts_need_no_weight() -> None:
    outputs = torch.rand(4, 5, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    for index in range(4):
        assert torch.equal(mixture(F.one_hot(torch.full((5,), index), 4).float(), outputs), outputs[index])
    same = outputs[:1].expand(4, -1, -1, -1, -1)
    for seed in range(3):
        weights = torch.rand(5, 4, generator=torch.Generator().manual_seed(seed)).softmax(dim=1)
        torch.testing.assert_close(mixture(weights, same), outputs[0])


def test_no_gradient_reaches_the_experts_and_equal_experts_teach_nothing(toy: MakeToy) -> None:
    federation = two_phases(toy, "fedsm-ensemble")
    run_all(federation)
    site = federation.site("site-0")
    (learner,) = federation.acting.learners(site)
    assert isinstance(learner, MixingLearner)
    learner.objective(whole(site)).backward()
    assert all(p.grad is None for expert in learner.experts for p in expert.parameters())
    assert any(p.grad.abs().max() > 0 for p in learner.net.parameters())
    assert all(not expert.training for expert in learner.experts)

    learner.net.zero_grad()
    learner.experts = [learner.experts[0]] * 4
    learner.objective(whole(site)).backward()
    assert all(p.grad.abs().max() < 1e-6 for p in learner.net.parameters())
