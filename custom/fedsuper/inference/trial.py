"""The finished super model on a site's own validation images: what methods calibrate by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedsuper.core.supermodel import SuperModel
from fedsuper.core.validated.selection_choice import STATISTICS, TRAINED, kinds_of
from fedsuper.data.prepared.samples import Samples
from fedsuper.inference.gamma import batch_of, gamma_statistics
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.closed_form import discriminant_of
from fedsuper.inference.selection.gate_statistics import utility_row
from fedsuper.inference.slice_batch import SliceBatch
from fedsuper.train.device import Compute


@dataclass(frozen=True)
class ValidationTrial:
    """Answers with sums over images; nothing of a single one leaves the site."""

    super_model: SuperModel
    samples: Samples
    label: int
    compute: Compute

    @cached_property
    def predictor(self) -> Predictor:
        """The super model at work on these images."""
        return Predictor(self.super_model, self.compute)

    @cached_property
    def batch(self) -> SliceBatch:
        """The images, and what every model says of them, each computed once."""
        return batch_of(self.predictor, self.samples)

    def kinds(self) -> list[str]:
        """A trained selector as long as there is no closed form; then what a closed form adds."""
        wanted = kinds_of(self.predictor.study.selector.kind)
        if discriminant_of(self.super_model) is None:
            return [kind for kind in wanted if kind == TRAINED]
        return [kind for kind in wanted if kind != TRAINED or STATISTICS not in wanted]

    def gamma_curve(self, kind: str) -> dict[str, Any]:
        """See `gamma_statistics`."""
        return gamma_statistics(self.batch, self.samples, kind)

    def utility_row(self, kind: str) -> dict[str, Any]:
        """See `utility_row` in `inference.selection.gate_statistics`."""
        return utility_row(self.batch, self.samples, self.label, kind)
