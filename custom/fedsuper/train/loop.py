"""The only epoch loop. One batch is loaded and augmented once and feeds all of a site's learners."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from fedsuper.core.metrics import dice_scores
from fedsuper.data.augment import AugmentConfig, augment_batch
from fedsuper.data.dataset import Samples
from fedsuper.train.device import Compute
from fedsuper.train.learner import Batch, Learner


@dataclass
class BatchSource:
    """Draws augmented batches from a site's samples.

    The epoch's batches and the further ones have random streams of their own: a learner that asks for more batches
    does not change what the learners beside it see.
    """

    samples: Samples
    batch_size: int
    augment: AugmentConfig
    compute: Compute
    random: torch.Generator
    further: torch.Generator

    def batch(self, index: torch.Tensor, random: torch.Generator) -> Batch:
        """The samples of `index`, augmented, on the device."""
        images = self.samples.images[index]
        images, masks = augment_batch(images, self.samples.masks[index].to(images.dtype), self.augment, random)
        return Batch(self.compute.place(images), self.compute.place(masks), index, self.another)

    def another(self) -> Batch:
        """A further batch, drawn with replacement, independent of the epoch's order."""
        index = torch.randint(len(self.samples), (self.batch_size,), generator=self.further)
        return self.batch(index, self.further)

    def epoch(self) -> Iterator[Batch]:
        """Every sample once, in random order."""
        for index in torch.randperm(len(self.samples), generator=self.random).split(self.batch_size):
            yield self.batch(index, self.random)


def run_epochs(
    learners: Sequence[Learner], source: BatchSource, epochs: int, after_epoch: Callable[[], None] | None = None
) -> dict[str, float]:
    """Train all learners side by side; returns the mean training loss of each role."""
    totals = dict.fromkeys((learner.role for learner in learners), 0.0)
    steps = 0
    for _ in range(epochs):
        for learner in learners:
            learner.start_epoch()
        for batch in source.epoch():
            for learner in learners:
                totals[learner.role] += learner.step(batch)
            steps += 1
        if after_epoch is not None:
            after_epoch()
    return {role: total / max(steps, 1) for role, total in totals.items()}


@torch.no_grad()
def predict(net: torch.nn.Module, images: torch.Tensor, compute: Compute) -> torch.Tensor:
    """Outputs of a net in evaluation mode for all images, on the CPU in float32."""
    net.eval()
    outputs = []
    for chunk in images.split(compute.eval_batch_size):
        with compute.autocast():
            outputs.append(net(compute.place(chunk)).float().cpu())
    return torch.cat(outputs)


def validation_dice(net: torch.nn.Module, samples: Samples, compute: Compute) -> float:
    """Mean over images, then regions, of the Dice of thresholded predictions (p > 0.5)."""
    predicted = predict(net, samples.images, compute) > 0
    return float(dice_scores(predicted, samples.masks).mean(dim=0).mean())
