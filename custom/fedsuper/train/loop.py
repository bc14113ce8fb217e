"""The only epoch loop. One batch is loaded and augmented once and feeds all of a site's learners."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from fedsuper.core.metrics import dice_scores
from fedsuper.data.augment.batch import augment_batch
from fedsuper.data.augment.settings import Augment, AugmentSettings
from fedsuper.data.prepared.samples import Pair, Samples
from fedsuper.train.allocator import keep_freed_memory
from fedsuper.train.device import Compute
from fedsuper.train.learner import Batch, Learner
from fedsuper.train.seeding import generator


@dataclass
class BatchSource:
    """Draws augmented batches from a site's samples.

    The epoch's batches and the further ones have random streams of their own (`names` and what is drawn): a learner
    that asks for more batches does not change what the learners beside it see. Images are loaded once; where roles are
    augmented differently, each way has a stream of its own too, and roles augmented alike see the same batch.
    """

    samples: Samples
    batch_size: int
    augment: Augment
    compute: Compute
    names: tuple[object, ...]

    def __post_init__(self) -> None:
        self._streams: dict[tuple[object, ...], torch.Generator] = {}

    def _stream(self, *purpose: object) -> torch.Generator:
        if purpose not in self._streams:
            self._streams[purpose] = generator(*self.names, *purpose)
        return self._streams[purpose]

    def epoch(self, roles: Iterable[str]) -> Iterator[dict[str, Batch]]:
        """Every sample once, in random order: each batch as every role sees it."""
        order = torch.randperm(len(self.samples), generator=self._stream())
        return self._batches(torch.split(order, self.batch_size), roles)

    def another(self, role: str) -> Batch:
        """A further batch, drawn with replacement, independent of the epoch's order."""
        index = torch.randint(len(self.samples), (self.batch_size,), generator=self._stream("further"))
        return next(self._batches([index], [role], "further"))[role]

    def _batches(
        self, indices: Sequence[torch.Tensor], roles: Iterable[str], *purpose: str
    ) -> Iterator[dict[str, Batch]]:
        """The samples of each index, loaded ahead, augmented on the device."""
        ways = {role: self.augment.for_role(role) for role in roles}
        loaded = (self.samples.batch(index) for index in indices)
        for index, (images, masks) in zip(indices, self.compute.ahead(loaded), strict=True):
            masks = masks.to(images.dtype)
            seen: dict[AugmentSettings, Batch] = {}
            for role, way in ways.items():
                if way not in seen:
                    varied, moved = augment_batch(images, masks, way, self._stream(*purpose, *self._own(way)))
                    arranged = self.compute.arrange(varied), self.compute.arrange(moved)
                    seen[way] = Batch(*arranged, index, functools.partial(self.another, role))
            yield {role: seen[way] for role, way in ways.items()}

    def _own(self, way: AugmentSettings) -> tuple[str, ...]:
        """What names the stream of a way to augment; the only way shares the stream of the order."""
        return () if way is self.augment else ("augment", way.model_dump_json())


def run_epochs(
    learners: Sequence[Learner], source: BatchSource, epochs: int, after_epoch: Callable[[], None] | None = None
) -> dict[str, float]:
    """Train all learners side by side; returns the mean training loss of each role.

    Losses stay on the device until an epoch has ended: the processor never waits for a step to finish.
    """
    keep_freed_memory()
    totals = dict.fromkeys((learner.role for learner in learners), 0.0)
    steps = 0
    for _ in range(epochs):
        for learner in learners:
            learner.start_epoch()
        losses = [
            torch.stack([learner.step(batches[learner.role]) for learner in learners])
            for batches in source.epoch(totals)
        ]
        for row in torch.stack(losses).tolist():
            for learner, value in zip(learners, row, strict=True):
                totals[learner.role] += value
        steps += len(losses)
        if after_epoch is not None:
            after_epoch()
    return {role: total / max(steps, 1) for role, total in totals.items()}


@torch.no_grad()
def predict(net: torch.nn.Module, images: torch.Tensor, compute: Compute) -> torch.Tensor:
    """Outputs of a net in evaluation mode for all images, on the CPU in float32."""
    return torch.cat([_outputs(net.eval(), chunk, compute) for chunk in torch.split(images, compute.eval_batch_size)])


def predict_samples(net: torch.nn.Module, samples: Samples, compute: Compute) -> Iterator[Pair]:
    """Outputs and masks, a few samples at a time: neither images nor outputs of all of them are in memory at once."""
    for images, masks in samples.parts(compute.eval_batch_size):
        yield _outputs(net.eval(), images, compute), masks


def _outputs(net: torch.nn.Module, images: torch.Tensor, compute: Compute) -> torch.Tensor:
    with torch.no_grad(), compute.autocast():
        outputs: torch.Tensor = net(compute.place(images)).float().cpu()
    return outputs


def region_dice(net: torch.nn.Module, samples: Samples, compute: Compute) -> torch.Tensor:
    """Mean over images of each region's Dice of thresholded predictions (p > 0.5)."""
    scores = [dice_scores(outputs > 0, masks) for outputs, masks in predict_samples(net, samples, compute)]
    return torch.cat(scores).mean(dim=0)
