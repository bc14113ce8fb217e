"""Images through a super model: prepared, predicted in a mode, judged, put back into their own grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fedsuper.core.validated.quality import QualityModel
from fedsuper.data.images.io import Image
from fedsuper.inference.masks.mask_features import mask_features
from fedsuper.inference.modes.base import Mode, ModeOptions, Outcome, create_mode
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.selection.familiarity import REVIEW_BELOW, Familiarity
from fedsuper.inference.slice_batch import SliceBatch

Quality = tuple[float, float, float]


@dataclass
class Prediction:
    """A mask and how it came about.

    `labels` uint8 `[Z, H, W]` and `probabilities` float32 `[Z, R, H, W]` are in the image's own grid; `chosen` names
    the model of every slice; `selector` `[Z, classes]` are the probabilities of `classes`, None without a selector.
    `weights` are the experts' shares in every slice where several have a part in it. `familiarity` says how much the
    image is like those of the sites that trained (None: this super model cannot tell), `review` why a person should
    look at it, empty where nothing speaks for that. `quality` is the estimated Dice of the mask with an interval that
    nine in ten lie in: value, low, high (None: this super model cannot tell).
    """

    labels: np.ndarray
    probabilities: torch.Tensor
    chosen: list[str]
    classes: list[str]
    selector: torch.Tensor | None
    gamma: float | None
    details: list[dict[str, Any]] = field(default_factory=list)
    familiarity: float | None = None
    review: str = ""
    weights: list[dict[str, float]] = field(default_factory=list)
    quality: Quality | None = None

    @property
    def model(self) -> str:
        """The model that answered; several, joined by +, where slices went apart."""
        return "+".join(dict.fromkeys(self.chosen))

    @property
    def sites(self) -> dict[str, float]:
        """The selector's probabilities, their mean over slices; empty without a selector."""
        return {} if self.selector is None else dict(zip(self.classes, self.selector.mean(dim=0).tolist(), strict=True))

    @property
    def confidence(self) -> float | None:
        """The largest of the selector's probabilities: how sure it is whose kind of image this is."""
        return max(self.sites.values(), default=None)


class Segmenter:
    """A predictor with a mode, and with its judges of what is familiar and what is good where it has them."""

    def __init__(self, predictor: Predictor, mode: Mode) -> None:
        self.predictor = predictor
        self.mode = mode
        self.judge = Familiarity.of(predictor)
        told = predictor.super_model.manifest.get("quality")
        self.quality = None if told is None else QualityModel.from_json(told)
        self.least_quality = predictor.study.prediction.least_quality

    def predict(self, cases: Sequence[torch.Tensor], patients: Sequence[str] | None = None) -> list[Answer]:
        """What the nets say of prepared images, `[Z, C, S, S]` each; models run once, on the slices of all of them.

        Images of one of `patients` vote together.
        """
        batch = SliceBatch(self.predictor, cases, keep=False, patients=patients)
        outcome = self.mode.predict(batch)
        values: list[float | None] = [None] * len(cases)
        if self.judge is not None:
            values = self.judge.familiarity_at(batch.distances(self.judge)).tolist()
        ends = np.cumsum(batch.sizes).tolist()
        rows = [slice(end - size, end) for end, size in zip(ends, batch.sizes, strict=True)]
        return [Answer(outcome, one, value) for one, value in zip(rows, values, strict=True)]

    def finish(self, answer: Answer, size: tuple[int, int]) -> Prediction:
        """An answer as a mask of height and width `size`. Runs no net: safe beside `predict` in another thread."""
        outcome, rows = answer.outcome, answer.rows
        labels, probabilities = self.predictor.restore(outcome.probabilities[rows], size)
        quality = None if self.quality is None else self.quality.estimate(mask_features(outcome.probabilities[rows]))
        return Prediction(
            labels=labels,
            probabilities=probabilities,
            chosen=outcome.chosen[rows],
            classes=self.predictor.classes,
            selector=None if outcome.selector is None else outcome.selector[rows],
            gamma=self.mode.gamma,
            details=outcome.details[rows],
            familiarity=answer.familiarity,
            review=review_of(answer.familiarity, quality, self.least_quality),
            weights=outcome.weights[rows],
            quality=quality,
        )


@dataclass(frozen=True)
class Answer:
    """The rows of one image in a batch's outcome, and how familiar the image is."""

    outcome: Outcome
    rows: slice
    familiarity: float | None


def review_of(familiarity: float | None, quality: Quality | None = None, least: float = 0.0) -> str:
    """Why a person should look: an image unlike those of the sites, a mask that is likely to be poor; empty if neither.
    """
    reasons = []
    if familiarity is not None and familiarity < REVIEW_BELOW:
        reasons.append(f"unlike the images of every site (familiarity {familiarity:.3f}, usual ones have "
                       f"{REVIEW_BELOW:g} or more)")
    if quality is not None and quality[0] < least:
        reasons.append(f"its mask is likely to be poor (estimated Dice {quality[0]:.2f}, asked for {least:g} or more)")
    return "; ".join(reasons)


def segment(predictor: Predictor, image: Image, mode: str | None = None, **options: Any) -> Prediction:
    """Segment one image; `mode` None is the method's own way, `options` are those of `ModeOptions`."""
    segmenter = Segmenter(predictor, create_mode(predictor, mode, ModeOptions(**options)))
    images = predictor.prepare(image)
    if segmenter.mode.adapts:
        segmenter.mode.prepare([images])
    (answer,) = segmenter.predict([images])
    return segmenter.finish(answer, image.size)
