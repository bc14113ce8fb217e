"""A site's side of differential privacy: noise on what leaves, and its cost written down before it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fedsuper.config import Study
from fedsuper.core.privacy.gaussian import SENSITIVITY
from fedsuper.core.state import Models
from fedsuper.federation.messages import Message
from fedsuper.federation.outlet.budget import Budget
from fedsuper.federation.outlet.noise import noised, sums_noise
from fedsuper.methods.protocol.upload import Upload


@dataclass(frozen=True)
class Protection:
    """What `privacy` in the study asks for; without noise everything passes as it is, at no cost."""

    study: Study
    budget: Budget

    def models(
        self, models: Models, declared: Callable[[], Mapping[str, Upload]], trained: int
    ) -> tuple[Models, int]:
        """A round's models as they may leave, and how many releases they cost.

        `trained` counts the noised sums of DP-SGD, after which weights need no more noise.
        """
        config = self.study.privacy
        if config.noise == 0:
            return models, 0
        cost = trained
        if config.mechanism == "update":
            models, cost = noised(models, declared(), config), len(models)
        self.budget.spend({config.noise / SENSITIVITY: cost})
        return models, cost

    def sums(self, reply: Message) -> Message:
        """An answer whose feature sums, if any, carry their noise already."""
        if self.study.privacy.noise > 0 and reply.models:
            self.budget.spend({sums_noise(self.study) / SENSITIVITY: 1})
        return reply
