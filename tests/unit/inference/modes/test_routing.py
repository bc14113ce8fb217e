"""The tuning loop: what is kept, what stays, that order and labels play no part."""

import pytest
import torch
from routed_nets import NETS, images, make_experts, random_of, routed

from fedsuper.config import RoutingConfig
from fedsuper.inference.routing.tuner import Epoch, RoutingTuner, Turn, alike
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
    assert torch.allclose(one.answer(cases(1)[0])[0], tuned.best.logits, atol=1e-5)
    for name, tensor in one.net.state_dict().items():
        assert torch.equal(tensor, tuned.gates[name])


def test_too_large_a_learning_rate_leaves_the_best_epoch_standing():
    tuned = tuner(lr=50.0, epochs=5).tune(cases(1))
    assert tuned.best.loss == min(tuned.losses) < tuned.losses[-1]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("statistics", ["image", "batch", "running"])
def test_learning_rate_zero_changes_nothing(count, statistics):
    one = tuner(lr=0.0, norm_statistics=statistics)
    before = torch.cat([one.answer(case)[0] for case in cases(count)])
    tuned = one.tune(cases(count))
    assert len(set(tuned.losses)) == 1 and tuned.best.number == 0
    assert all(torch.equal(tuned.gates[name], tensor) for name, tensor in one.start.items())
    if statistics != "batch":
        assert torch.allclose(tuned.best.logits, before, atol=1e-5)


def test_no_epochs_is_the_even_mixture():
    tuned = tuner(epochs=0).tune(cases(1))
    assert len(tuned.losses) == 1
    assert all(torch.equal(row, torch.full((3,), 1 / 3)) for row in tuned.best.coefficients.values())


@pytest.mark.slow
def test_tuning_starts_afresh_each_time_so_order_plays_no_part():
    one, two = tuner(), tuner()
    forward = [one.tune([case]).best.logits for case in cases(3)]
    backward = [two.tune([case]).best.logits for case in reversed(cases(3))]
    for a, b in zip(forward, reversed(backward), strict=True):
        assert torch.equal(a, b)


@pytest.mark.slow
def test_tuning_over_a_site_keeps_one_state_for_all_images():
    one = tuner(epochs=3)
    watched = []
    tuned = one.tune(cases(3), watch=watched)
    assert [epoch.number for epoch in watched] == [0, 1, 2, 3]
    assert [epoch.loss for epoch in watched] == tuned.losses and tuned.best.loss < tuned.losses[0]
    assert tuned.best.logits.shape[0] == 3
    again = torch.cat([one.answer(case)[0] for case in cases(3)])
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
    assert all(at <= 0.3 for at in tuned.seconds[:-1]), "an epoch was begun that could not end in time"


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


# --- presets, starts and the guard ------------------------------------------------------------------------------------


def test_as_released_tunes_scale_and_shift_with_dropout_and_turns_and_gives_the_same_twice():
    one = tuner(preset="as-released", lr=0.05)
    assert one.config.affine and one.config.turns and one.config.norm_statistics == "batch" and not one.config.reset
    tuned = one.tune(cases(3))
    moved = [name for name, tensor in one.net.state_dict().items() if "more_" in name and bool(tensor.abs().max() > 0)]
    assert tuned.best.number > 0 and moved, "the norms' scale and shift take part"
    assert tuner(preset="as-released", lr=0.05).tune(cases(3)).losses == tuned.losses
    widths = {gate.inner_weight.shape[0] / gate.inner_weight.shape[1] for gate in one.net.gates()}
    assert widths == {2.0}, "gates are twice as wide as their inputs"


def test_a_preset_stands_for_its_values_and_a_key_beside_it_wins():
    paper = RoutingConfig.model_validate("paper")
    assert not paper.reset and paper.epochs == 10 and not paper.normalize and not paper.guard
    assert RoutingConfig.model_validate({"preset": "paper", "reset": True}).reset
    assert RoutingConfig.model_validate(paper.model_dump(mode="json")) == paper


def test_turns_are_undone():
    x = images(2)
    for quarters in range(4):
        for flip in (False, True):
            assert torch.equal(Turn(quarters, flip).undo(Turn(quarters, flip).apply(x)), x)


def test_coefficients_begin_where_they_are_told():
    row = torch.tensor([0.2, 0.7, 0.1])
    tuned = tuner(epochs=0).tune(cases(1), start=row)
    assert all(torch.allclose(found, row, atol=1e-6) for found in tuned.best.coefficients.values())


def test_the_guard_keeps_no_state_that_gave_its_regions_up():
    """One of the models sees nothing anywhere and is sure of it: by the entropy it is the best of all."""
    config, loss = NETS["plain-batch"], {"epochs": 12, "lr": 0.3, "consistency": False, "weights": (0.0, 0.0, 1.0)}
    experts = make_experts(config)
    last = [name for name in experts[2] if name.endswith("bias")][-1]
    experts[2][last] = torch.full_like(experts[2][last], -30.0)

    def tuned(**options: object) -> tuple[Epoch, list[Epoch]]:
        settings, watched = RoutingConfig.model_validate(loss | options), []
        net = routed(config, experts, **settings.model_dump())
        return RoutingTuner(net, settings, CPU, 0).tune(cases(1), watch=watched).best, watched

    (kept, watched), (free, _) = tuned(), tuned(guard=False)
    untuned, with_guard, without = (epoch.logits.sigmoid().sum(dim=(0, 2, 3)) for epoch in (watched[0], kept, free))
    assert not alike(without, untuned) and free.loss < kept.loss
    assert alike(with_guard, untuned) and not all(epoch.sound for epoch in watched)
