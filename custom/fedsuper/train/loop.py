"""The only epoch loop. One batch is loaded and augmented once and feeds all of a site's learners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fedsuper.core.metrics import dice_scores
from fedsuper.data.augment import AugmentConfig, augment_batch
from fedsuper.data.dataset import Samples
from fedsuper.train.device import Compute
from fedsuper.train.learner import Batch, Learner


@dataclass
class BatchSource:
    """Draws augmented batches from a site's samples with one named random stream."""

    samples: Samples
    batch_size: int
    augment: AugmentConfig
    compute: Compute
    random: torch.Generator

    def batch(self, index: torch.Tensor) -> Batch:
        """The samples of `index`, augmented, on the device."""
        masks = self.samples.masks[index].float()
        images, masks = augment_batch(self.samples.images[index], masks, self.augment, self.random)
        return Batch(self.compute.place(images), self.compute.place(masks), self.another)

    def another(self) -> Batch:
        """A further batch, drawn with replacement, independent of the epoch's order."""
        return self.batch(torch.randint(len(self.samples), (self.batch_size,), generator=self.random))

    def order(self) -> Sequence[torch.Tensor]:
        """One epoch: every sample once, in random order."""
        return torch.randperm(len(self.samples), generator=self.random).split(self.batch_size)


def run_epochs(learners: Sequence[Learner], source: BatchSource, epochs: int) -> dict[str, float]:
    """Train all learners side by side; returns the mean training loss of each role."""
    totals = dict.fromkeys((learner.role for learner in learners), 0.0)
    steps = 0
    for _ in range(epochs):
        for learner in learners:
            learner.start_epoch()
        for index in source.order():
            batch = source.batch(index)
            for learner in learners:
                totals[learner.role] += learner.step(batch)
            steps += 1
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
