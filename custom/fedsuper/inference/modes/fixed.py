"""`global` and `own` (`site:NAME`): one model for every image."""

from __future__ import annotations

from typing import ClassVar

from fedsuper.core.mode import GLOBAL, OWN
from fedsuper.errors import FedSuperError
from fedsuper.inference.modes.base import Mode, ModeOptions, Outcome
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch


class Fixed(Mode):
    """The model `expert` for every image."""

    expert: str

    def predict(self, batch: SliceBatch) -> Outcome:
        return Outcome(batch.logits(self.expert).sigmoid(), [self.expert] * len(batch), self.told_sites(batch))


class Global(Fixed):
    """The global model."""

    name: ClassVar[str] = GLOBAL
    expert = GLOBAL

    def __init__(self, predictor: Predictor, options: ModeOptions) -> None:
        super().__init__(predictor, options)
        predictor.check_has(GLOBAL)


class Own(Fixed):
    """The personalized model of the site the images come from."""

    name: ClassVar[str] = OWN

    def __init__(self, predictor: Predictor, options: ModeOptions) -> None:
        super().__init__(predictor, options)
        there = ", ".join(predictor.super_model.personal) or "none"
        if options.site is None:
            raise FedSuperError("mode own needs the site the images come from; "
                                f"say --mode site:NAME with one of {there}")
        if options.site not in predictor.super_model.personal:
            raise FedSuperError(f"mode site:{options.site}: no personalized model of '{options.site}'; "
                                f"there are: {there}")
        self.expert = options.site
