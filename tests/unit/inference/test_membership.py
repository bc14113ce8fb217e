"""Sites that join and leave: what is left equals what was never joined by more."""

from __future__ import annotations

import pytest
import torch
from super_models import random_super_model

from fedsuper.core.calibration import Choice
from fedsuper.core.discriminant import discriminant
from fedsuper.core.expected_dice import choose_utility
from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.supermodel import SuperModel
from fedsuper.errors import FedSuperError
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.closed_form import is_closed_form, sums_of, with_sums
from fedsuper.inference.selection.cost_gate import ExpectedDiceGate
from fedsuper.inference.selection.membership import EVEN_ODDS, join, leave
from fedsuper.train.loop import predict

SITES = ["A", "B", "C"]
IMAGES = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(9))


def images(seed: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(12, 3, 32, 32, generator=random) * (1 + seed / 4) + seed


def sums(super_model: SuperModel, seed: int) -> FeatureSums:
    predictor = Predictor(super_model)
    return FeatureSums.of(predict(predictor.feature_net(), images(seed), predictor.compute))


def super_model(kind: str = "statistics") -> SuperModel:
    model = random_super_model(SITES, selector={"kind": kind})
    choice = Choice(0.1, 2.0, 0.1, 0.9, [0.5] * 161)
    return with_sums(model, [sums(model, seed) for seed in range(3)], choice)


def posterior(model: SuperModel) -> torch.Tensor:
    return Predictor(model).selector_probabilities(IMAGES)


def test_join_then_leave_is_never_joined() -> None:
    before = super_model()
    after = leave(join(before, "new", sums(before, 5)), "new")
    assert after.sites == before.sites and set(after.personal) == set(before.personal)
    assert torch.equal(posterior(after), posterior(before))


def test_joining_equals_a_selector_made_from_scratch() -> None:
    start = super_model()
    grown = join(leave(start, "B"), "B", sums(start, 1))
    scratch = discriminant([sums(start, seed) for seed in (0, 2, 1)], 0.1, 2.0)
    predictor = Predictor(grown)
    features = predict(predictor.feature_net(), IMAGES, predictor.compute)
    assert grown.sites == ["A", "C", "B"]
    torch.testing.assert_close(posterior(grown), scratch.posterior(features), rtol=1e-4, atol=1e-6)  # a float32 net
    found = discriminant(sums_of(grown) or [], 0.1, 2.0)
    torch.testing.assert_close(found.posterior(features), scratch.posterior(features), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.distances(features), scratch.distances(features), rtol=1e-9, atol=1e-9)


def test_a_newcomer_is_served_by_the_global_model_or_its_own() -> None:
    start = super_model()
    assert join(start, "new", sums(start, 5)).personal["new"] is start.global_model
    own = {name: tensor + 1 for name, tensor in start.personal["A"].items()}
    grown = join(start, "new", sums(start, 5), own)
    assert grown.personal["new"] is own and start.sites == SITES, "the super model at hand is left alone"
    assert grown.manifest["membership"] == [{"joined": "new", "images": 12}]
    named = Predictor(grown).selector_probabilities(images(5)).argmax(dim=1)
    assert named.tolist() == [3] * 12


def test_a_trained_selector_gives_way_to_the_closed_form_and_masks_who_left() -> None:
    trained = super_model("trained")
    assert not is_closed_form(trained)
    grown = join(trained, "new", sums(trained, 5))
    assert is_closed_form(grown) and grown.manifest["gamma"] == EVEN_ODDS and "statistics" not in grown.extras
    assert posterior(grown).shape == (6, 4)
    left = leave(trained, "B")
    assert left.sites == SITES and "B" not in left.personal and not is_closed_form(left)
    assert bool((posterior(left)[:, 1] == 0).all())


def test_without_sums_a_site_joins_but_is_never_selected() -> None:
    grown = join(super_model(), "new", None)
    assert bool((posterior(grown)[:, 3] == 0).all()) and "new" in grown.personal


def test_the_matrix_of_expected_dice_follows() -> None:
    model = super_model()
    model.manifest["study"]["selector"]["gate"] = "expected-dice"
    cost = [1.0, 0.1, *[1.0] * 6]  # of every temperature: the selector is as sure as it should be
    row = {"dice_sum": {"global": 4.0, "A": 5.0, "B": 3.0, "C": 2.0}, "cross_entropy": cost, "images": 6}
    model.manifest["utility"] = choose_utility({site: row for site in SITES})
    for changed, experts in ((join(model, "new", sums(model, 5)), 5), (leave(model, "B"), 3)):
        gate = ExpectedDiceGate.of(Predictor(changed))
        assert gate is not None and gate.table.shape == (len(changed.sites), experts)
        assert set(gate.choose(posterior(changed))) == {"A"}
    assert len(model.manifest["utility"]["experts"]) == 4
    own = dict(model.personal["A"])
    grown = join(model, "new", sums(model, 5), own, {"global": 0.5, "A": 0.85, "B": 0.4, "C": 0.4, "new": 0.9}, 3)
    gate = ExpectedDiceGate.of(Predictor(grown))
    assert gate is not None and set(gate.choose(posterior(grown))) == {"A"}, "elsewhere nobody knows its worth"
    assert set(gate.choose(Predictor(grown).selector_probabilities(images(5)))) == {"new"}


@pytest.mark.parametrize(("act", "match"), [
    (lambda model: join(model, "A", None), "has a site of that name"),
    (lambda model: leave(model, "Z"), "knows no such site; it has A, B, C"),
    (lambda model: join(model, "new", FeatureSums.of(torch.randn(6, 7))), "7 features an image"),
    (lambda model: join(random_super_model(SITES), "new", None), "keeps no feature sums"),
])
def test_what_cannot_be_done_says_so(act, match: str) -> None:
    with pytest.raises(FedSuperError, match=match):
        act(super_model())
