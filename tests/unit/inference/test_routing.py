"""The tuning loop: what is kept, what stays, that order and labels play no part."""

import pytest
import torch
from routed_nets import NETS, images, make_experts, random_of, routed

from fedsuper.config import RoutingConfig
from fedsuper.inference.routing import RoutingTuner
from fedsuper.train.device import Compute

CPU = Compute(torch.device("cpu"), eval_batch_size=4)


def tuner(name: str = "unet-batch", seed: int = 0, **options: object) -> RoutingTuner:
    config = NETS[name]
    settings = RoutingConfig.model_validate({"radius": 2, "lr": 0.05, "epochs": 4} | options)
    return RoutingTuner(routed(config, make_experts(config), **settings.model_dump()), settings, CPU, seed)


def cases(count: int) -> list[torch.Tensor]:
    return list(images(count).split(1))


def test_tuning_lowers_the_loss_and_keeps_the_lowest():
    one = tuner(epochs=8)
    tuned = one.tune(cases(1))
    assert len(tuned.losses) == len(tuned.seconds) == 9
    assert tuned.best.loss == min(tuned.losses) < tuned.losses[0]
    assert tuned.best.number == tuned.losses.index(min(tuned.losses))
    assert torch.allclose(one.logits(cases(1)[0]), tuned.best.logits, atol=1e-5)
    for name, tensor in one.net.state_dict().items():
        assert torch.equal(tensor, tuned.gates[name])


def test_too_large_a_learning_rate_leaves_the_best_epoch_standing():
    tuned = tuner(lr=50.0, epochs=5).tune(cases(1))
    assert tuned.best.loss == min(tuned.losses) < tuned.losses[-1]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("statistics", ["image", "batch", "running"])
def test_learning_rate_zero_changes_nothing(count, statistics):
    one = tuner(lr=0.0, norm_statistics=statistics)
    before = torch.cat([one.logits(case) for case in cases(count)])
    tuned = one.tune(cases(count))
    assert len(set(tuned.losses)) == 1 and tuned.best.number == 0
    assert all(torch.equal(tuned.gates[name], tensor) for name, tensor in one.start.items())
    if statistics != "batch":
        assert torch.allclose(tuned.best.logits, before, atol=1e-5)


def test_no_epochs_is_the_even_mixture():
    tuned = tuner(epochs=0).tune(cases(1))
    assert len(tuned.losses) == 1
    assert all(torch.equal(row, torch.full((3,), 1 / 3)) for row in tuned.best.coefficients.values())


def test_tuning_starts_afresh_each_time_so_order_plays_no_part():
    one, two = tuner(), tuner()
    forward = [one.tune([case]).best.logits for case in cases(3)]
    backward = [two.tune([case]).best.logits for case in reversed(cases(3))]
    for a, b in zip(forward, reversed(backward), strict=True):
        assert torch.equal(a, b)


def test_tuning_over_a_site_keeps_one_state_for_all_images():
    one = tuner(epochs=3)
    watched = []
    tuned = one.tune(cases(3), watch=watched)
    assert [epoch.number for epoch in watched] == [0, 1, 2, 3]
    assert [epoch.loss for epoch in watched] == tuned.losses and tuned.best.loss < tuned.losses[0]
    assert tuned.best.logits.shape[0] == 3
    again = torch.cat([one.logits(case) for case in cases(3)])
    assert torch.allclose(again, tuned.best.logits, atol=1e-5)


def test_a_volume_is_tuned_as_one_image():
    volume = images(6)  # more slices than a batch holds: two steps an epoch
    tuned = tuner(epochs=2).tune([volume])
    assert tuned.best.logits.shape[0] == 6 and len(tuned.losses) == 3


def test_patience_stops_when_nothing_improves():
    tuned = tuner(lr=0.0, epochs=50, patience=3).tune(cases(1))
    assert len(tuned.losses) == 4


def test_time_budget_stops_and_still_answers():
    tuned = tuner(epochs=100_000, seconds_per_image=0.3).tune(cases(1))
    assert 1 <= len(tuned.losses) < 100_000
    assert tuned.seconds[-1] < 3


def test_progress_is_told():
    told = []
    tuner(epochs=2).tune(cases(1), lambda done, in_all, loss: told.append((done, in_all, loss > 0)))
    assert told == [(0, 2, True), (1, 2, True), (2, 2, True)]


def test_noise_belongs_to_the_image_and_the_seed():
    one, x = tuner(noise=0.5), images(2)
    noise = one._noise(x)
    assert torch.equal(noise[1:], one._noise(x[1:])) and not torch.equal(noise[0], noise[1])
    assert not torch.equal(noise, tuner(seed=1)._noise(x))
    assert float(one._noise(torch.zeros(1, 3, 64, 64)).std()) == pytest.approx(0.5, rel=0.05)


def test_the_global_random_state_is_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    tuner().tune(cases(1))
    assert torch.equal(torch.rand(3), expected)
    assert random_of(0).initial_seed() == 0
