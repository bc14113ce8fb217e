"""DP-SGD (Abadi et al. 2016): every image's gradient is clipped, their sum is noised, and only then a step is taken.

    g = (sum_i g_i min(1, C / |g_i|) + N(0, (z C)^2 I)) / B

Images are taken one by one, so that any net, loss and penalty can be used; a batch costs as many backward passes as it
has images. An epoch shows every image once, in exactly one batch, so exchanging one image changes one noised sum by at
most 2 C: an epoch is one release with noise of z / 2 sensitivities. Nothing is gained from shuffling and nothing is
claimed for it: opacus' figures for random batches need coin flips per image that this loop does not make.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from fedsuper.core.privacy.gaussian import system_random
from fedsuper.core.state import is_float
from fedsuper.errors import FedSuperError
from fedsuper.train.learner import Batch, GradientLearner, Learner


@dataclass
class PrivateSteps:
    """Takes the place of a learner's gradients; `noise` in units of `clip`."""

    clip: float
    noise: float
    random: torch.Generator = field(default_factory=system_random)

    def attach(self, learner: Learner) -> None:
        """Make `learner` step privately; one whose steps or net would leak is refused."""
        for kind in type(learner).__mro__:
            own = {"step", "gradients"} & kind.__dict__.keys() and kind not in (Learner, GradientLearner)
            if own and not kind.__dict__.get("one_step"):
                raise FedSuperError(f"privacy.mechanism dp-sgd: {learner.role} takes steps of its own kind, which are "
                                    "not made private; use `mechanism: update`, or another method")
        leaking = [name for name, buffer in learner.net.named_buffers() if is_float(buffer)]
        if leaking:
            raise FedSuperError(f"privacy.mechanism dp-sgd: {leaking[0]} of {learner.role} is a running statistic, "
                                "which no step makes private; use `model.norm: instance`, or `mechanism: update`")
        if learner.compute.amp == "fp16":
            raise FedSuperError("privacy.mechanism dp-sgd: gradients cannot be clipped at half precision; set "
                                "`compute.amp: off`")
        learner.private = self

    def gradients(self, learner: Learner, batch: Batch) -> torch.Tensor:
        """Fill the parameters' gradients with the noised mean; returns the mean loss."""
        total, value = self.clipped_sum(learner, batch)
        count = len(batch.images)
        for parameter, slope in zip(learner.parameters, total, strict=True):
            parameter.grad = (slope + self.draw(slope)) / count
        return value

    def clipped_sum(self, learner: Learner, batch: Batch) -> tuple[list[torch.Tensor], torch.Tensor]:
        """sum_i g_i min(1, C / |g_i|), and the mean loss."""
        total = [torch.zeros_like(parameter) for parameter in learner.parameters]
        losses = []
        for index in range(len(batch.images)):
            part = slice(index, index + 1)
            one = Batch(batch.images[part], batch.masks[part], batch.index[part], _no_more)
            value = learner.objective(one)
            slopes = torch.autograd.grad(value, learner.parameters, allow_unused=True, materialize_grads=True)
            losses.append(value.detach())
            length = torch.stack([slope.double().square().sum() for slope in slopes]).sum().sqrt()
            share = (self.clip / length.clamp(min=1e-12)).clamp(max=1)
            for summed, slope in zip(total, slopes, strict=True):
                summed += slope * share.to(slope.dtype)
        return total, torch.stack(losses).mean()

    def draw(self, like: torch.Tensor) -> torch.Tensor:
        """Noise in the shape of `like`, drawn on the CPU."""
        drawn = torch.randn(like.shape, generator=self.random, dtype=torch.float64)
        return (self.noise * self.clip * drawn).to(like)


def _no_more() -> Batch:
    raise FedSuperError("privacy.mechanism dp-sgd: this method draws further batches, whose cost is not counted; use "
                        "`mechanism: update`, or another method")
