"""The slices of some images and what every model says of them, each computed at most once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch

from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.familiarity import Familiarity

Value = TypeVar("Value")


class SliceBatch:
    """The prepared slices of one or more images, with every expert's output computed at most once per slice.

    `images` is `[N, C, S, S]`, the slices of all images one after the other; `sizes` says how many each image has.
    Several modes evaluated on one batch share the experts' outputs; where there is one mode alone, `keep` False lets
    them go, so that memory does not grow with the number of experts. Images of one of the `patients` vote together;
    without them every image is its own.
    """

    def __init__(
        self,
        predictor: Predictor,
        cases: Sequence[torch.Tensor],
        keep: bool = True,
        patients: Sequence[str] | None = None,
    ) -> None:
        self.predictor = predictor
        self.patients = list(range(len(cases))) if patients is None else list(patients)
        self.keep = keep
        self.images = torch.cat(list(cases))
        self.sizes = [len(case) for case in cases]
        self._logits: dict[str, torch.Tensor] = {}
        self._known: dict[str, torch.Tensor] = {}
        self._selector: dict[str, torch.Tensor] = {}
        self._distances: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.images)

    def logits(self, expert: str, rows: torch.Tensor | None = None) -> torch.Tensor:
        """The expert's logits for the slices `rows` (indices; all of them by default)."""
        if not self.keep:
            return self._run(expert, rows)
        rows = torch.arange(len(self)) if rows is None else rows
        known = self._known.setdefault(expert, torch.zeros(len(self), dtype=torch.bool))
        missing = rows[~known[rows]]
        if len(missing):
            fresh = self._run(expert, missing)
            buffer = self._logits.setdefault(expert, torch.empty(len(self), *fresh.shape[1:]))
            buffer[missing] = fresh
            known[missing] = True
        return self._logits[expert][rows]

    def _run(self, expert: str, rows: torch.Tensor | None) -> torch.Tensor:
        if self.predictor.study.prediction.norm_statistics != "batch":
            return self.predictor.logits(expert, self.images if rows is None else self.images[rows])
        rows = torch.arange(len(self)) if rows is None else rows
        return torch.cat([self.predictor.logits(expert, self.images[part]) for part in self._of_one_image(rows)])

    def _of_one_image(self, rows: torch.Tensor) -> list[torch.Tensor]:
        """The rows that may share a pass where a pass shares statistics: those of one image."""
        ends = torch.tensor(self.sizes).cumsum(0)
        return list(rows.split(torch.bincount(torch.bucketize(rows, ends, right=True)).tolist()))

    def selector(self, kind: str | None = None) -> torch.Tensor:
        """The selector's probabilities, float64 `[N, classes]`; `kind` names another than the one in force."""
        kind = kind or self.predictor.selection.kind
        if kind not in self._selector:
            self._selector[kind] = self.predictor.selector_probabilities(self.images, kind, elsewhere=True)
        return self._selector[kind]

    def distances(self, judge: Familiarity) -> torch.Tensor:
        """How far each image lies from the nearest site, float64 `[images]`."""
        if self._distances is None:
            self._distances = judge.distances(self.images, self.sizes)
        return self._distances

    def case_means(self, values: torch.Tensor) -> torch.Tensor:
        """`[N, ...]` with each slice's values replaced by their mean over all slices of its patient."""
        parts = torch.split(values, self.sizes)
        means = {}
        for patient in dict.fromkeys(self.patients):
            own = [part for part, whose in zip(parts, self.patients, strict=True) if whose == patient]
            means[patient] = torch.cat(own).mean(dim=0, keepdim=True)
        pairs = zip(parts, self.patients, strict=True)
        return torch.cat([means[patient].expand_as(part) for part, patient in pairs])

    def for_slices(self, values: Sequence[Value]) -> list[Value]:
        """One value per image as one value per slice."""
        return [value for value, size in zip(values, self.sizes, strict=True) for _ in range(size)]
