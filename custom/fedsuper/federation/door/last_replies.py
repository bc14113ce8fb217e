"""What a site may answer once training is over: measures of the finished super model, sums and counts alone."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StrictInt, ValidationInfo, field_validator, model_validator

from fedsuper.core.calibration import SHRINKAGES, WIDTHS
from fedsuper.core.validated.candidate_choice import WIDEST
from fedsuper.core.validated.selection_choice import AS_IT_IS, AUTO, options_of
from fedsuper.federation.door.replies import Images, Positive, RoundReply, Share, Text, at_most, exactly, known
from fedsuper.federation.message_schema import Count, Json, Plain

INTERVAL = {"mean_low", "mean_high"}
Covariance = Annotated[float, Field(ge=-WIDEST, le=WIDEST)]
OPTIONS = frozenset({AS_IT_IS, *(option.name for option in options_of(AUTO, AUTO))})


class HandoverReply(RoundReply):
    """What the method's `calibrate` found on the site's validation data, as the method declares it."""

    calibration: Json

    @field_validator("calibration")
    @classmethod
    def _of_the_method(cls, value: Json, info: ValidationInfo) -> Json:
        asked = known(info)
        if asked is None or asked.calibration is None:
            return value
        limits = {"images": asked.samples["val"], "experts": asked.experts}
        return asked.calibration.model_validate(value, context=limits).model_dump(mode="json", exclude_none=True)


class CandidateTable(Plain):
    """What every shrinkage and temperature of the closed-form selector is worth: counts and sums over images."""

    images: Images
    right: list[list[Count]]
    cross_entropy: list[list[Positive]]
    distances: list[list[Count]]

    @model_validator(mode="after")
    def _of_this_version(self, info: ValidationInfo) -> CandidateTable:
        shapes = [[len(row) for row in self.right], [len(row) for row in self.cross_entropy],
                  [len(row) for row in self.distances]]
        if shapes != [[width] * len(SHRINKAGES) for width in WIDTHS]:
            raise ValueError("its tables are not over this version's candidates")
        if any(count > self.images for row in self.right for count in row):
            raise ValueError("more right answers than images")
        if any(sum(row) != self.images for row in self.distances):
            raise ValueError("its distances do not count every image once")
        asked = known(info)
        if asked:
            at_most(asked.samples["val"], self.images)
        return self


class OptionSums(Plain):
    """Dice of each region summed over images: of the masks as they are, and of their largest pieces.

    `dice` is the mean over patients of the former, and `spread` its covariance between patients with every option's.
    """

    raw: dict[Text, Positive]
    one_piece: dict[Text, Positive]
    dice: Share
    spread: dict[Text, Covariance]


class MaskTable(Plain):
    """What every way of choosing a model is worth, see `inference.masks.mask_measures`."""

    images: Images
    patients: Images
    options: Annotated[dict[Text, OptionSums], Field(min_length=1, max_length=12)]

    @model_validator(mode="after")
    def _of_its_images(self, info: ValidationInfo) -> MaskTable:
        asked = known(info)
        if not set(self.options) <= OPTIONS:
            raise ValueError("an option that nobody asked for")
        if self.patients > self.images:
            raise ValueError("more patients than images")
        for option in self.options.values():
            exactly(set(self.options), set(option.spread))
            for sums in (option.raw, option.one_piece):
                if any(value > self.images + 1e-6 for value in sums.values()):
                    raise ValueError("sums above the number of images")
                if asked:
                    exactly(asked.regions, set(sums))
        if asked:
            at_most(asked.samples["val"], self.images)
        return self


class CalibrateReply(HandoverReply):
    """Counts over the site's validation images, what the method's `calibrate` found on them, or how good masks are."""

    counts: CandidateTable | None = None
    masks: MaskTable | None = None
    calibration: Json = Field(default_factory=dict)


class SettleReply(RoundReply):
    """Mean test scores by folder and region, None over too few patients; a site speaks of its own folders only.

    A row may give the 95% interval of its mean, `mean_low` and `mean_high`.
    """

    scores: dict[Text, dict[Text, StrictInt | Share] | None]

    @field_validator("scores")
    @classmethod
    def _own(cls, value: dict[str, dict[str, Any] | None], info: ValidationInfo) -> dict[str, dict[str, Any] | None]:
        asked = known(info)
        if asked is None:
            return value
        exactly(asked.folders, set(value))
        for row in (row for row in value.values() if row is not None):
            exactly(asked.regions | {"mean", "n"} | (INTERVAL if INTERVAL & set(row) else set()), set(row))
            if not isinstance(row["n"], int) or row["n"] < 1:
                raise ValueError(f"n is {row['n']}, expected a number of images")
            at_most(asked.samples["test"], row["n"])
            if any(not 0 <= number <= 1 for name, number in row.items() if name != "n"):
                raise ValueError("a mean Dice outside 0 to 1")
        return value
