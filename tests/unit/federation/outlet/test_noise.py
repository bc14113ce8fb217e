"""A study with noise: what leaves is noised, what has no noise stays, and what it cost is counted and bounded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from toy import SIZES, samples

from fedsuper.config.reading import parse_study
from fedsuper.core.privacy.accountant import spent
from fedsuper.core.robust import distance
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.task import Task
from fedsuper.engines.in_process import run_local
from fedsuper.errors import FedSuperError
from fedsuper.federation.outlet.budget import SPENT_FILE, Budget
from fedsuper.federation.outlet.noise import check_coverage, noised
from fedsuper.federation.progress import Progress
from fedsuper.methods.protocol.upload import Upload, model
from fedsuper.train.device import Compute
from fedsuper.train.learner import Batch, GradientLearner, Learner
from fedsuper.train.private_steps import PrivateSteps

TINY = {"method": "fedsm", "rounds": 2, "image_size": 32,
        "model": {"channels": [4, 8], "residual_units": 0, "norm": "instance"}}
TASK = Task.from_json({"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}})


def run(root: Path, folder: Path, **privacy: object) -> SuperModel:
    return run_local(parse_study({**TINY, "privacy": privacy}), root, folder, Progress("", None))


def test_noise_on_updates_hides_all_figures_and_is_stated(tiny_root: Path, tmp_path: Path) -> None:
    found = run(tiny_root, tmp_path, noise=2.0, clip=0.5)
    told = found.manifest["privacy"]
    assert told["protects"] == "all data of a site" and set(told["epsilon"]) == {"site-1", "site-2", "site-3"}
    assert told["epsilon"]["site-1"] == pytest.approx(spent({1.0: 2 * 3 + 1})), "3 models, 2 rounds, the sums once"
    assert not found.manifest["metrics"]["test"] and not found.manifest["metrics"]["validation"]
    assert all(not metrics for entry in found.manifest["history"] for metrics in entry["sites"].values())
    assert found.personal.keys() == {"site-1", "site-2", "site-3"} and found.mode == "select"
    kept = json.loads((tmp_path / "sites" / "site-1" / SPENT_FILE).read_text())
    assert kept == {"releases": {"1.0": 7}}
    again = run(tiny_root, tmp_path / "again", noise=2.0, clip=0.5)
    assert not torch.equal(*(next(iter(one.global_model.values())) for one in (found, again)))  # type: ignore[union-attr]


def test_dp_sgd_counts_an_epoch_of_every_model(tiny_root: Path, tmp_path: Path) -> None:
    told = run(tiny_root, tmp_path, noise=1.0, mechanism="dp-sgd").manifest["privacy"]
    assert told["protects"] == "one training image"
    assert told["epsilon"]["site-2"] == pytest.approx(spent({0.5: 2 * 3 + 1}))


@pytest.mark.parametrize(("study", "line"), [
    ({"method": "feddg"}, "'bank' holds figures"),
    ({"method": "fedsm", "fedsm": {"personal": "auto"}}, "'candidate-dice' holds figures"),
])
def test_what_noise_cannot_cover_is_refused_before_anybody_trains(study: dict[str, object], line: str) -> None:
    check_coverage(parse_study(study), TASK)
    with pytest.raises(FedSuperError, match=line):
        check_coverage(parse_study({**study, "privacy": {"noise": 1}}), TASK)


def test_rounds_cannot_end_by_scores_that_stay_at_the_sites() -> None:
    with pytest.raises(FedSuperError, match="rounds: `auto` needs validation scores"):
        parse_study({"rounds": "auto", "privacy": {"noise": 1}})


def test_a_site_stops_when_its_budget_is_spent(tmp_path: Path) -> None:
    budget = Budget("a", tmp_path / "spent.json", 8.0, 1e-5)
    budget.spend({2.0: 1})
    with pytest.raises(FedSuperError, match="a: its privacy budget is spent"):
        budget.spend({2.0: 50})
    assert budget.releases() == {2.0: 1}, "what did not leave costs nothing"


def test_bounds_hold_after_the_noise() -> None:
    sent = {"bn.running_var": torch.zeros(1000), "w": torch.zeros(1000)}
    config = parse_study({"privacy": {"noise": 1.0, "clip": 0.1}}).privacy
    out = noised({"global": sent}, {"global": model(sent)}, config)["global"]
    assert float(out["bn.running_var"].min()) == 0 and float(out["w"].min()) < 0
    assert distance({"w": out["w"]}, None) == pytest.approx(0.1 * 1000**0.5, rel=0.2)
    with pytest.raises(FedSuperError, match="holds figures"):
        noised({"dice": {"x": torch.zeros(1)}}, {"dice": Upload({"x": torch.zeros(1)}, most=1.0)}, config)


def half_square(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs - targets).square().sum(dim=1).mean() / 2


def learner_of(kind: type[Learner]) -> Learner:
    net = torch.nn.Conv2d(3, 1, 1).double()
    return kind("global", net, torch.optim.SGD(net.parameters(), 0.1), half_square,
                Compute.from_config(parse_study({}).compute))


@pytest.mark.parametrize("kind", [Learner, GradientLearner])
def test_no_image_moves_a_private_step_by_more_than_its_share(kind: type[Learner]) -> None:
    data = samples(0, SIZES[0])
    batch = Batch(data.images * 1e6, data.masks, torch.arange(len(data)), lambda: None)  # type: ignore[arg-type, return-value]
    learner = learner_of(kind)
    PrivateSteps(clip=0.5, noise=0.0).attach(learner)
    learner.start_epoch()
    before = [weight.detach().clone() for weight in learner.parameters]
    learner.step(batch)
    if isinstance(learner, GradientLearner):
        moved = learner.mean_gradient()
    else:
        moved = [(start - weight.detach()) / 0.1 for start, weight in zip(before, learner.parameters, strict=True)]
    assert float(torch.cat([slope.flatten() for slope in moved]).norm()) <= 0.5 + 1e-9


def test_a_private_step_without_clipping_and_noise_is_the_usual_step() -> None:
    data = samples(1, 8)
    batch = Batch(data.images, data.masks, torch.arange(8), lambda: None)  # type: ignore[arg-type, return-value]
    plain, private = learner_of(Learner), learner_of(Learner)
    private.net.load_state_dict(plain.net.state_dict())
    PrivateSteps(clip=1e9, noise=0.0).attach(private)
    assert float(plain.step(batch)) == pytest.approx(float(private.step(batch)))
    for one, other in zip(plain.parameters, private.parameters, strict=True):
        assert torch.allclose(one, other)


def test_steps_that_cannot_be_made_private_are_refused() -> None:
    class Own(Learner):
        def step(self, batch: Batch) -> torch.Tensor:
            return torch.zeros(())

    with pytest.raises(FedSuperError, match="takes steps of its own kind"):
        PrivateSteps(1, 1).attach(learner_of(Own))
    leaky = learner_of(Learner)
    leaky.net = torch.nn.Sequential(leaky.net, torch.nn.BatchNorm2d(1))
    with pytest.raises(FedSuperError, match="running statistic"):
        PrivateSteps(1, 1).attach(leaky)
