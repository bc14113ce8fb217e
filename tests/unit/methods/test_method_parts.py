"""What methods are made of: private parts never leave, SoftPull keeps to the mean, a composite forwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from toy import MakeToy, samples, two_layer_net, vector

from fedsuper.config.reading import parse_study
from fedsuper.core.supermodel import GLOBAL
from fedsuper.data.task import Task
from fedsuper.methods.fedbn import FedBN
from fedsuper.methods.fedrep import AlternatingLearner
from fedsuper.methods.parts.composite import Composite
from fedsuper.methods.parts.partly_shared import PRIVATE
from fedsuper.methods.protocol.method import Method, NoKnobs
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.methods.protocol.server import Server
from fedsuper.methods.softpull import SoftPull

CLOSE = {"rtol": 1e-12, "atol": 1e-12}
EVERYTHING = {"head_layers": 99}


def two_linear_layers() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 2, 1), torch.nn.Conv2d(2, 1, 1)).double()


def test_fedrep_with_an_empty_head_is_fedavg(toy: MakeToy) -> None:
    plain = toy("fedavg", net=two_layer_net, local_epochs=2, batch_size=5, optimizer="adam").rounds(3)
    empty = toy("fedrep", {"head_layers": 0}, net=two_layer_net, local_epochs=2, batch_size=5, optimizer="adam").rounds(
        3
    )
    assert torch.equal(empty.weights, plain.weights)
    assert empty.method.mode == GLOBAL and [role.name for role in empty.method.roles()] == [GLOBAL]


def test_fedrep_that_is_all_head_is_local_training(toy: MakeToy) -> None:
    alone = toy("local", net=two_layer_net, local_epochs=2, batch_size=5).rounds(3)
    head = toy("fedrep", EVERYTHING | {"head_epochs": 2}, net=two_layer_net, batch_size=5).rounds(3)
    for name in head.data:
        assert torch.equal(head.stored(PRIVATE, name), alone.stored(PERSONAL, name))
        assert head.uploads[name] == {GLOBAL: {}}


def test_no_head_step_and_one_body_step_is_the_pooled_body_step(toy: MakeToy) -> None:
    knobs = {"head_layers": 1, "head_epochs": 0}
    shared = toy("fedrep", knobs, net=two_linear_layers).rounds(1)
    plain = toy("fedavg", net=two_linear_layers).rounds(1)
    for name in ("0.weight", "0.bias"):
        torch.testing.assert_close(shared.server.models[GLOBAL][name], plain.server.models[GLOBAL][name], **CLOSE)
    for name in ("1.weight", "1.bias"):
        assert torch.equal(shared.server.models[GLOBAL][name], shared.first[name])


def test_fedrep_trains_the_head_before_a_frozen_body_and_the_body_under_a_frozen_head(toy: MakeToy) -> None:
    federation = toy("fedrep", {"head_layers": 1, "head_epochs": 3}, net=two_layer_net)
    method, site = federation.method, federation.site("site-0")
    options = {"head": method.private, "body": method.public, "head_epochs": 3}
    learner = site.learner(GLOBAL, federation.first, AlternatingLearner, **options)
    site.fit([learner], epochs=3)
    after_head = learner.state()
    assert all(torch.equal(after_head[name], federation.first[name]) for name in method.public)
    method.local_update(site)
    kept = site.store.models[PRIVATE]
    assert all(torch.equal(kept[name], after_head[name]) for name in method.private), (
        "the body's epoch left the head alone"
    )
    assert not all(torch.equal(after_head[name], federation.first[name]) for name in method.private)


def test_a_frozen_body_keeps_its_statistics(toy: MakeToy) -> None:
    federation = toy("fedrep", {"head_layers": 1, "head_epochs": 4}, net=two_layer_net).rounds(1)
    assert all(models[GLOBAL]["1.num_batches_tracked"] == 1 for models in federation.uploads.values()), "one body epoch"


@pytest.mark.parametrize(("method", "knobs"), [("fedbn", None), ("fedrep", {"head_layers": 1})])
def test_private_entries_never_travel_and_shared_ones_are_averaged(
    toy: MakeToy, method: str, knobs: dict | None
) -> None:
    federation = toy(method, knobs, net=two_layer_net).rounds(2)
    private = federation.method.private
    assert private and private == set(federation.stores["site-0"].models[PRIVATE])
    for models in federation.uploads.values():
        assert not private & models[GLOBAL].keys()
    assert not private & federation.method.downlink(federation.server, "site-0")[GLOBAL].keys()
    for name in federation.method.public:
        uploads = [models[GLOBAL][name] for models in federation.uploads.values()]
        expected = sum(share * upload for share, upload in zip(federation.shares, uploads, strict=True))
        if uploads[0].is_floating_point():
            torch.testing.assert_close(federation.server.models[GLOBAL][name], expected, **CLOSE)


def test_fedbn_keeps_norm_layers_by_type(toy: MakeToy) -> None:
    federation = toy("fedbn", net=two_layer_net).rounds(3)
    assert federation.method.private == {
        f"1.{name}" for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    }
    means = [federation.stores[name].models[PRIVATE]["1.running_mean"] for name in federation.data]
    assert not torch.equal(means[0], means[1])


def test_fedbn_on_a_net_without_norm_parameters_is_fedavg_bit_for_bit(toy: MakeToy) -> None:
    plain = toy("fedavg", batch_size=5, optimizer="adam").rounds(3)
    kept = toy("fedbn", batch_size=5, optimizer="adam").rounds(3)
    assert torch.equal(kept.weights, plain.weights) and torch.equal(vector(kept.finish().global_model), plain.weights)
    assert any("equals FedAvg" in line for line in kept.method.check(["a", "b"]))


def test_a_site_deploys_the_shared_part_with_its_own(toy: MakeToy) -> None:
    federation = toy("fedbn", net=two_layer_net).rounds(2)
    super_model = federation.finish()
    for name in federation.data:
        personal = super_model.personal[name]
        assert personal.keys() == federation.first.keys()
        for entry in federation.method.public:
            assert torch.equal(personal[entry], federation.server.models[GLOBAL][entry])
        for entry in federation.method.private:
            assert torch.equal(personal[entry], federation.stores[name].models[PRIVATE][entry])


def test_a_new_site_gets_the_mean_of_the_private_parts(toy: MakeToy) -> None:
    federation = toy("fedbn", net=two_layer_net).rounds(2)
    found = federation.finish().global_model["1.weight"]
    own = [federation.stores[name].models[PRIVATE]["1.weight"] for name in federation.data]
    torch.testing.assert_close(
        found, sum(share * each for share, each in zip(federation.shares, own, strict=True)), **CLOSE
    )


@pytest.mark.parametrize("method", ["fedbn", "fedrep"])
def test_a_late_site_starts_its_private_part_from_the_first_weights(toy: MakeToy, method: str) -> None:
    federation = toy(method, net=two_layer_net)
    federation.round(absent=["site-2"])
    assert federation.method.downlink(federation.server, "site-2")[GLOBAL].keys() == federation.first.keys()
    model = federation.method.model_of(federation.site("site-2"))
    assert all(torch.equal(model[name], federation.first[name]) for name in federation.method.private)
    federation.round()
    assert federation.stores["site-2"].models[PRIVATE]


@pytest.mark.parametrize("method", ["fedbn", "fedrep"])
def test_an_absent_site_keeps_its_private_part(toy: MakeToy, method: str) -> None:
    federation = toy(method, net=two_layer_net, data=[samples(0, 12), samples(1, 20)]).rounds(1)
    before = federation.stored(PRIVATE).clone()
    federation.round(absent=["site-0"])
    assert torch.equal(federation.stored(PRIVATE), before)


# --- SoftPull when few report ----------------------------------------------------------------------------------------


def test_softpull_never_pulls_past_the_mean_of_those_who_report(toy: MakeToy) -> None:
    """lambda .3 is fine for four sites; with two reporters Eq. 11 would make each model mostly the other's."""
    data = [samples(seed, 6) for seed in range(4)]
    federation = toy("softpull", {"lambda": 0.3}, data=data)
    federation.round(absent=["site-2", "site-3"])
    sent = [vector(federation.uploads[site][PERSONAL]) for site in ("site-0", "site-1")]
    mean = (sent[0] + sent[1]) / 2
    for site in ("site-0", "site-1"):
        torch.testing.assert_close(vector(federation.server.models[f"{PERSONAL}/{site}"]), mean)
    assert federation.method.check(list(federation.data)) == []
    (warning,) = federation.method.check(["site-0", "site-1"])
    assert "below 1/K = 0.500 for 2 sites" in warning


def test_a_composite_expects_back_what_its_parts_send_back() -> None:
    """FedBN keeps norm layers at the site; beside another method the server must still not ask for them."""
    study = parse_study({"method": "fedavg", "model": {"channels": [4, 8], "norm": "batch"}})

    class Pair(Composite[NoKnobs]):
        name = "pair"

        def compose(self) -> list[Method[Any]]:
            return [FedBN(self.study), SoftPull(self.study)]

    task = Task.from_json({"task": "toy", "channels": 3, "regions": {"all": [1]}})
    server = Server(study=study, task=task, sites=["a", "b"], samples={"a": 1, "b": 1})
    pair, alone = Pair(study), FedBN(study)
    server.models = pair.start(server)
    sent = pair.downlink(server, "a")
    asked = pair.uploads(server, "a", sent)
    assert set(asked) == {GLOBAL, PERSONAL}
    assert asked[GLOBAL].like.keys() == alone.uploads(server, "a", sent)[GLOBAL].like.keys() < sent[GLOBAL].keys()
    assert asked[PERSONAL].like.keys() == sent[PERSONAL].keys()
