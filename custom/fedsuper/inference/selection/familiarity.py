"""How usual an image is: against the validation images of the sites that trained.

    familiarity(super_model, images)      of prepared images `[N, C, S, S]`, one slice each
    Familiarity.of(predictor)             for many images: `.values(images, sizes)` judges images of `sizes` slices each

A value is the share of the sites' own images expected to lie farther from every site, 0 to 1 (`usual_distance`).
Below `REVIEW_BELOW` a person should look: one in twenty images of the sites themselves lies there, and nearly every
image unlike all of them. Both give None where the super model cannot tell (made before there were sums, or no site
could send them).

Features are read with the global model, or with the first site's where there is no global one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch

from fedsuper.core.calibration import nearest
from fedsuper.core.discriminant import Discriminant
from fedsuper.core.supermodel import SuperModel
from fedsuper.core.validated import usual_distance
from fedsuper.core.validated.usual_distance import REVIEW_BELOW as REVIEW_BELOW
from fedsuper.inference.passes import run_passes
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.closed_form import STATISTICS, discriminant_of

CANNOT_TELL = ("this super model cannot tell an image unlike its sites' (it was made before there was familiarity, or "
               "too few images trained it): columns familiarity and review stay empty")


class Familiarity:
    """A judge of images; made once, it keeps its net. Several threads may ask."""

    def __init__(self, predictor: Predictor, found: Discriminant, seen: Mapping[str, Any]) -> None:
        """`seen` is what the manifest tells of the validation images' distances."""
        self.compute = predictor.compute
        self.discriminant = found
        self.farther: Sequence[float] = seen["farther"]
        limit = seen.get("farthest")
        self.farthest = usual_distance.farthest_by_shares(self.farther) if limit is None else float(limit)
        self._extractor = predictor.feature_net()

    @classmethod
    def of(cls, predictor: Predictor) -> Familiarity | None:
        """The predictor's judge, made once; None where the super model cannot tell."""
        if predictor not in _JUDGES:
            found = discriminant_of(predictor.super_model)
            seen = predictor.super_model.manifest.get(STATISTICS, {})
            _JUDGES[predictor] = cls(predictor, found, seen) if found is not None and seen.get("farther") else None
        return _JUDGES[predictor]

    def values(self, images: torch.Tensor, sizes: Sequence[int] | None = None) -> torch.Tensor:
        """Familiarity of every image of `sizes` prepared slices (default: each slice is an image), float64."""
        return self.familiarity_at(self.distances(images, sizes))

    def distances(self, images: torch.Tensor, sizes: Sequence[int] | None = None) -> torch.Tensor:
        """How far every image lies from the nearest site, float64; the two below read it."""
        sizes = [1] * len(images) if sizes is None else sizes
        cases = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
        features = run_passes(self._extractor, images, self.compute).double()
        return nearest(self.discriminant.distances(features), cases)

    def familiarity_at(self, distances: torch.Tensor) -> torch.Tensor:
        """How usual images at these distances are."""
        return usual_distance.familiarity(distances, self.farther)

    def foreign_at(self, distances: torch.Tensor) -> torch.Tensor:
        """Whether images at these distances are so far from every site that no site's model is meant for them."""
        return usual_distance.foreign(distances, self.farthest)


_JUDGES: WeakKeyDictionary[Predictor, Familiarity | None] = WeakKeyDictionary()


def familiarity(super_model: SuperModel, images: torch.Tensor) -> torch.Tensor | None:
    """Familiarity of prepared images, one slice each; None where the super model cannot tell."""
    judge = Familiarity.of(Predictor(super_model))
    return None if judge is None else judge.values(images)
