"""A site's last measures of the finished super model, on its validation images: sums alone leave it.

For every way of choosing a model that the study leaves open (`core.validated.selection_choice`), and for the one way of
a super model that chooses nothing: the Dice of each region, as it is and with its largest piece alone. And the sums of
(psi, Dice) over images and models by which masks are judged without labels (`core.validated.quality`): every model's
masks of this site's images, its own model's among them, so that good masks and those that go wrong are both seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch

from fedsuper.core.feature_sums import MINIMUM_IMAGES, MINIMUM_PATIENTS, FeatureSums
from fedsuper.core.metrics import dice_scores
from fedsuper.core.mode import GLOBAL, OWN, SELECT
from fedsuper.core.supermodel import gate
from fedsuper.core.validated.candidate_choice import Figures, patient_means
from fedsuper.core.validated.one_piece import largest_pieces
from fedsuper.core.validated.selection_choice import AS_IT_IS, EXPECTED_DICE, Selection, options_of
from fedsuper.inference.gamma import first_slices
from fedsuper.inference.masks.mask_features import mask_features
from fedsuper.inference.modes.base import ModeOptions, create_mode
from fedsuper.inference.modes.select import gamma_of, here_or_global
from fedsuper.inference.selection.cost_gate import ExpectedDiceGate
from fedsuper.inference.trial import ValidationTrial


class MaskTrial:
    """Every model's masks of a site's validation images, scored; each is computed once."""

    def __init__(self, trial: ValidationTrial) -> None:
        self.trial = trial
        self.predictor = trial.predictor
        self.batch = trial.batch
        self.regions = list(self.predictor.task.regions)

    @cached_property
    def tables(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """By model the Dice `[images, R]` of its masks and of their largest pieces."""
        return {name: self._scores(self.batch.logits(name).sigmoid()) for name in self.predictor.experts}

    def measures(self) -> dict[str, Any]:
        """`images`, `patients`, and for every option the summed Dice of each region, `raw` and `one_piece`.

        And its `dice`, the mean over patients, with its `spread`: the covariance between them with every option's.
        """
        if self.predictor.super_model.mode != SELECT:
            found = {AS_IT_IS: self._scores(self._as_it_is())}
        else:
            found = {one.name: _picked(self.tables, self._chosen(one)) for one in self._options()}
        patients = self.batch.patients
        told = Figures.of(torch.stack([patient_means(raw.mean(dim=1), patients) for raw, _ in found.values()]))
        options = {name: self._sums(raw, clean) | {"dice": dice, "spread": dict(zip(found, spread, strict=True))}
                   for (name, (raw, clean)), dice, spread in zip(found.items(), told.mean, told.spread, strict=True)}
        return {"images": len(self.batch.sizes), "patients": told.count, "options": options}

    def quality_sums(self) -> FeatureSums | None:
        """The sums of (psi, Dice) over images and models; None where images or patients are too few."""
        if len(self.batch.sizes) < MINIMUM_IMAGES or len(set(self.trial.samples.cases)) < MINIMUM_PATIENTS:
            return None
        rows = []
        for name in self.predictor.experts:
            features = [mask_features(part) for part in self.batch.logits(name).sigmoid().split(self.batch.sizes)]
            raw, _ = self.tables[name]
            rows += [torch.cat([psi, dice.mean()[None]]) for psi, dice in zip(features, raw, strict=True)]
        return FeatureSums.of(torch.stack(rows))

    def _as_it_is(self) -> torch.Tensor:
        model = self.predictor.super_model
        own = model.sites[self.trial.label]
        mode = GLOBAL if model.mode == OWN and own not in model.personal else model.mode
        return create_mode(self.predictor, mode, ModeOptions(site=own)).predict(self.batch).probabilities

    def _scores(self, probabilities: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Dice `[images, R]` of the masks as they are and of their largest pieces, a volume as one image."""
        every = list(range(len(self.regions)))
        parts = probabilities.split(self.batch.sizes)
        truth = self.trial.samples.masks.bool().split(self.batch.sizes)

        def dice(masks: Sequence[torch.Tensor]) -> torch.Tensor:
            pairs = zip(masks, truth, strict=True)
            return torch.cat([dice_scores(m.transpose(0, 1)[None] > 0.5, t.transpose(0, 1)[None]) for m, t in pairs])

        return dice(parts).double(), dice([largest_pieces(part, every) for part in parts]).double()

    def _options(self) -> list[Selection]:
        study, manifest = self.predictor.study.selector, self.predictor.super_model.manifest
        known = manifest.get("selectors") or {self.predictor.selection.kind}
        return [one for one in options_of(study.kind, study.gate)
                if one.kind in known and (one.gate != EXPECTED_DICE or manifest.get("utility"))]

    def _chosen(self, option: Selection) -> list[str]:
        """The model of each image. Expected Dice is judged without the image's own part in the matrix."""
        starts = first_slices(self.batch.sizes)
        q = self.batch.case_means(self.batch.selector(option.kind))[starts]
        sites = self.predictor.super_model.sites
        weighed = ExpectedDiceGate.of(self.predictor, option)
        if weighed is None:
            picked = gate(q, gamma_of(self.predictor, option)).tolist()
            return [here_or_global(self.predictor, sites[index] if index >= 0 else GLOBAL) for index in picked]
        own = {name: self.tables[name][0].mean(dim=1) for name in weighed.experts}
        site, utility = sites[self.trial.label], self.predictor.super_model.manifest["utility"]
        return [
            ExpectedDiceGate(_without(utility, site, {name: float(dice[at]) for name, dice in own.items()}), sites,
                             weighed.temperature, own).choose(q[at:at + 1])[0]
            for at in range(len(q))
        ]

    def _sums(self, raw: torch.Tensor, clean: torch.Tensor) -> dict[str, Any]:
        return {name: dict(zip(self.regions, table.sum(dim=0).tolist(), strict=True))
                for name, table in (("raw", raw), ("one_piece", clean))}


def _picked(
    tables: dict[str, tuple[torch.Tensor, torch.Tensor]], chosen: Sequence[str]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Every image's Dice of the model chosen for it, as it is and cleaned."""
    raw, clean = (torch.stack([tables[name][which][at] for at, name in enumerate(chosen)]) for which in (0, 1))
    return raw, clean


def _without(utility: dict[str, Any], site: str, dice: dict[str, float]) -> dict[str, Any]:
    """The matrix of expected Dice as it was without one image of `site`, of which the models had `dice`."""
    count = utility["images"].get(site, 0)
    if site not in utility["dice"] or count < 1:
        return utility
    row = [(count * mean - dice[name]) / max(1, count - 1) if count > 1 and name in dice and mean is not None else mean
           for name, mean in zip(utility["experts"], utility["dice"][site], strict=True)]
    return utility | {"dice": utility["dice"] | {site: row}, "images": utility["images"] | {site: count - 1}}
