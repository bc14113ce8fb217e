"""What a mode is: slices of one or more images in, probabilities per region and the model behind each slice out.

Selection over a patient, `vote`: with `case` (default) the selector's probabilities are averaged over the slices of a
volume, and over all images of a patient where `cases.csv` names them, and one decision holds for all: a mask put
together from several models' slices shows their seams, and a patient's images come from one scanner. `slice` decides
for each slice alone. A photograph whose patient nobody names is one slice: both are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from fedsuper.config import Strict
from fedsuper.core.mode import GLOBAL, OWN
from fedsuper.core.validated.selection_choice import Selection
from fedsuper.errors import FedSuperError
from fedsuper.inference.modes import SITE_PREFIX, mode_class
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.slice_batch import SliceBatch


@dataclass(frozen=True)
class ModeOptions:
    """`gamma` None: the super model's own. `site`: where the images come from, for `own`. `vote`: case or slice.

    `routing_file`: for `route`, a hospital's tuned gates: used where the file exists, else tuned and written.
    `selection`: another selector and gate than those in force, for `select` and `mix`.
    """

    gamma: float | None = None
    site: str | None = None
    vote: str = "case"
    routing_file: Path | None = None
    selection: Selection | None = None

    def __post_init__(self) -> None:
        if self.gamma is not None and not 0 <= self.gamma <= 1:
            raise FedSuperError(f"gamma must lie in [0, 1], got {self.gamma}; 0 is never the global model, 1 always")
        if self.vote not in ("case", "slice"):
            raise FedSuperError(f"vote must be case or slice, got '{self.vote}'")


@dataclass
class Outcome:
    """What a mode says of N slices: probabilities `[N, R, S, S]`, the model behind each, the selector's probabilities.

    `weights` are, for each slice, the shares of the experts where several have a part in the answer; `details` may
    explain it further (adaptation losses, ...) in plain JSON.
    """

    probabilities: torch.Tensor
    chosen: list[str]
    selector: torch.Tensor | None = None
    details: list[dict[str, Any]] = field(default_factory=list)
    weights: list[dict[str, float]] = field(default_factory=list)


class NoKnobs(Strict):
    """A mode without settings of its own."""


class Mode:
    """Base of all modes. A mode that tunes itself on a site's unlabeled images sets `adapts` and writes `prepare`.

    `Knobs` is what a study may set under `modes.NAME`. A mode that this super model cannot offer says so when it is
    made, before any image is read.
    """

    name: ClassVar[str]
    Knobs: ClassVar[type[Strict]] = NoKnobs
    adapts: ClassVar[bool] = False
    keeps_gates: ClassVar[bool] = False  # in `ModeOptions.routing_file`
    knobs: Strict

    def __init__(self, predictor: Predictor, options: ModeOptions) -> None:
        self.predictor = predictor
        self.options = options
        if self.adapts and predictor.study.prediction.tta:
            raise FedSuperError(f"mode {self.name} adapts itself to each image and takes no test-time augmentation; "
                                "leave --tta out, or choose another mode")
        if options.routing_file is not None and not self.keeps_gates:
            raise FedSuperError(f"--routing {options.routing_file}: mode {self.name} has no gates to keep; "
                                "use --mode route, or leave it out")
        self.knobs = self.Knobs.model_validate(predictor.study.modes.get(self.name, {}))

    @property
    def carries_on(self) -> bool:
        """Whether an image's outcome depends on the images before it; a broken run then starts anew."""
        return False

    @property
    def votes(self) -> bool:
        """Whether the selector decides once for all images of a patient."""
        return self.options.vote == "case" and self.predictor.super_model.selector is not None

    @property
    def gamma(self) -> float | None:
        """The threshold in force, None where the mode has none."""
        return None

    def prepare(self, cases: Iterable[torch.Tensor]) -> None:
        """See all of a site's prepared images, `[Z, C, S, S]` each, before the first of them is predicted."""

    def told_sites(self, batch: SliceBatch) -> torch.Tensor | None:
        """The selector's probabilities for the record, None without a selector."""
        return batch.selector() if self.predictor.super_model.selector is not None else None

    def voted(self, batch: SliceBatch) -> torch.Tensor:
        """The selector's probabilities that decide: of each slice, or their mean over its patient's."""
        q = batch.selector(None if self.options.selection is None else self.options.selection.kind)
        return batch.case_means(q) if self.options.vote == "case" else q

    def predict(self, batch: SliceBatch) -> Outcome:
        """Probabilities and explanation for every slice of the batch."""
        raise TypeError(f"{type(self).__name__} must define predict")


def create_mode(predictor: Predictor, name: str | None = None, options: ModeOptions | None = None) -> Mode:
    """The mode of that name, `site:NAME` included; None is the way of the method that trained the super model."""
    name = name or predictor.super_model.mode
    options = options or ModeOptions()
    if name.startswith(SITE_PREFIX):
        name, options = OWN, replace(options, site=name.removeprefix(SITE_PREFIX))
    return mode_class(name)(predictor, options)


def score_models(predictor: Predictor) -> list[str]:
    """The models that `ensemble` and `average` run over: the personalized ones, or the global one alone."""
    return [name for name in predictor.experts if name != GLOBAL] or [GLOBAL]
