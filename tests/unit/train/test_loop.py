"""The epoch loop: every sample once, one batch for all learners, streams of their own, numbers by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from fedsuper.config import OptimizerConfig
from fedsuper.data.augment.settings import Augment, AugmentByRole, AugmentSettings
from fedsuper.data.prepared.samples import Samples
from fedsuper.train.checkpoint import digest
from fedsuper.train.device import Compute
from fedsuper.train.learner import Batch, Learner, make_optimizer
from fedsuper.train.loop import BatchSource, predict, region_dice, run_epochs
from fedsuper.train.losses import dice_loss

CPU = Compute(torch.device("cpu"), eval_batch_size=3)
OFF = AugmentSettings(flip=False, rotation=0, scale=0, intensity=0)
COUNT = 10


def make_samples(count: int = COUNT) -> Samples:
    """Image i is i everywhere in its first pixel row, so that it can be told apart."""
    images = torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    images[:, 0, 0] = torch.arange(count).view(-1, 1).float()
    names = [f"i{number}" for number in range(count)]
    return Samples(images, (images > 0.2).to(torch.uint8), names, names)


def make_source(augment: Augment = OFF, seed: str = "s") -> BatchSource:
    return BatchSource(make_samples(), 4, augment, CPU, (seed,))


def epoch(source: BatchSource, role: str = "global") -> Iterator[Batch]:
    """An epoch as one role sees it."""
    return (batches[role] for batches in source.epoch([role]))


def make_learner(role: str = "global", kind: type[Learner] = Learner) -> Learner:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Conv2d(2, 1, 1))
    return kind(role, net, make_optimizer(list(net.parameters()), OptimizerConfig(lr=0.01)), dice_loss, CPU)


def test_an_epoch_shows_every_sample_once_and_the_next_in_another_order() -> None:
    source = make_source()
    first, second = ([batch.index for batch in epoch(source)] for _ in range(2))
    assert [len(index) for index in first] == [4, 4, 2]
    assert sorted(torch.cat(first).tolist()) == sorted(torch.cat(second).tolist()) == list(range(COUNT))
    assert torch.cat(first).tolist() != torch.cat(second).tolist()


def test_a_batch_holds_the_samples_its_index_names() -> None:
    samples = make_samples()
    for batch in epoch(make_source()):
        assert torch.equal(batch.images, samples.images[batch.index])
        assert torch.equal(batch.masks, samples.masks[batch.index].float())


def test_further_batches_leave_the_epoch_as_it_is() -> None:
    """A learner that asks for more does not change what the learners beside it see."""
    varied = AugmentSettings(noise=0.2)
    plain = [batch.images for batch in epoch(make_source(varied))]
    seen = []
    for batch in epoch(make_source(varied)):
        further = batch.another()
        assert len(further.images) == 4 and not torch.equal(further.images[: len(batch.images)], batch.images)
        seen.append(batch.images)
    assert all(torch.equal(one, two) for one, two in zip(plain, seen, strict=True))


def test_the_same_stream_gives_the_same_training_bit_for_bit() -> None:
    def train(seed: str) -> str:
        learner = make_learner()
        run_epochs([learner], make_source(AugmentSettings(), seed), 2)
        return digest(learner.state())

    assert train("a") == train("a") != train("b")


def test_learners_see_the_same_batches_and_do_not_touch_each_other() -> None:
    alone = make_learner("personal")
    run_epochs([alone], make_source(AugmentSettings()), 1)
    seen: dict[str, list[torch.Tensor]] = {"global": [], "personal": []}

    class Watching(Learner):
        def step(self, batch: Batch) -> torch.Tensor:
            seen[self.role].append(batch.images)
            return super().step(batch)

    beside = [make_learner("global", Watching), make_learner("personal", Watching)]
    run_epochs(beside, make_source(AugmentSettings()), 1)
    assert len(seen["global"]) == 3, "and each was loaded and augmented once"
    assert all(one is two for one, two in zip(seen["global"], seen["personal"], strict=True))
    assert digest(beside[1].state()) == digest(alone.state())


def test_roles_may_be_augmented_differently_from_images_that_are_loaded_once() -> None:
    """What a role sees depends on its own settings alone, not on who trains beside it."""
    loud = AugmentSettings(noise=0.5)
    plan = AugmentByRole(shared=loud, personal=OFF, selector=OFF)
    samples = make_samples()
    seen = list(make_source(plan).epoch(["global", "personal", "selector"]))
    for batches in seen:
        assert batches["personal"] is batches["selector"], "augmented alike, so augmented once"
        assert torch.equal(batches["personal"].images, samples.images[batches["global"].index])
        assert not torch.equal(batches["global"].images, batches["personal"].images)
        assert not torch.equal(batches["global"].another().images, batches["personal"].another().images)
    for alone, together in zip(make_source(plan).epoch(["global"]), seen, strict=True):
        assert torch.equal(alone["global"].images, together["global"].images)


def test_the_loss_told_is_the_mean_over_steps_in_the_order_taken() -> None:
    told: list[float] = []

    class Telling(Learner):
        def step(self, batch: Batch) -> torch.Tensor:
            value = super().step(batch)
            told.append(float(value))
            return value

    losses = run_epochs([make_learner(kind=Telling)], make_source(), 2)
    total = 0.0
    for value in told:
        total += value
    assert losses == {"global": total / len(told)} and len(told) == 6


def test_epochs_begin_in_training_mode_and_end_with_the_callers_word() -> None:
    learner, calls = make_learner(), []

    def after() -> None:
        calls.append(learner.net.training)
        learner.net.eval()

    run_epochs([learner], make_source(), 3, after)
    assert calls == [True, True, True]


@pytest.mark.parametrize("count", [1, 3, 7])
def test_predictions_do_not_depend_on_how_images_are_split(count: int) -> None:
    net, images = make_learner().net.train(), make_samples(count).images
    found = predict(net, images, CPU)
    assert not net.training and found.dtype == torch.float32 and not found.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(found, net(images), atol=1e-6, rtol=0)


def test_region_dice_is_that_of_the_thresholded_answer() -> None:
    samples = make_samples()
    samples.masks = torch.cat([samples.masks, torch.zeros_like(samples.masks)], dim=1)

    class Answer(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return torch.cat([images - 0.2, torch.full_like(images, -1)], dim=1)

    assert float(region_dice(Answer(), samples, CPU).mean()) == 1.0, "an empty region answered by nothing is right"
    samples.masks[:, 1] = 1
    assert float(region_dice(Answer(), samples, CPU).mean()) == 0.5


def test_channels_last_changes_the_layout_and_nothing_else() -> None:
    last = Compute(torch.device("cpu"), channels_last=True)
    samples = make_samples()
    samples.images = samples.images.repeat(1, 3, 1, 1)
    varied = AugmentSettings(noise=0.1)
    sources = [BatchSource(samples, 4, varied, compute, ("s",)) for compute in (CPU, last)]
    for one, two in zip(*(epoch(source) for source in sources), strict=True):
        assert torch.equal(one.images, two.images) and torch.equal(one.masks, two.masks)
        assert two.images.is_contiguous(memory_format=torch.channels_last)
