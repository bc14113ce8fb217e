"""What a server may ask of a site that uses a super model, and what a site may tell of it: nothing else passes.

A reply is built from these schemas at the site and read through them at the server, so neither side can say more than
is written here: no name, no pixel, no figure of one patient.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError, model_validator

from fedsuper.errors import FedSuperError
from fedsuper.schema import Strict, first_problem

OFFER = "offer"  # the super model's digests go to a site; it names the files it does not hold yet
PREDICT = "predict"  # the files it lacks follow; the site segments its inbox and tells counts and means
SCORE = "score"  # as above; the site scores every model on its own test images and tells means
MINIMUM = 5  # a figure over fewer patients than this is withheld; a site may ask for more, never for fewer

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=10**9)]


class Request(Strict):
    """How to use the super model. `seconds` is the deadline of each site."""

    task: Literal["predict", "score"] = "predict"
    mode: str | None = None
    gamma: Share | None = None
    vote: Literal["case", "slice"] = "case"
    split: Literal["train", "val", "test", "all"] = "test"
    keep_gates: bool = False
    seconds: float = Field(3600, gt=0)

    @model_validator(mode="after")
    def _gates_of_a_mode_that_has_them(self) -> Request:
        if self.keep_gates and self.mode != "route":
            raise ValueError("keep_gates is for mode route")
        return self


class Lacking(Strict):
    """A site's answer to an offer: which of the offered models it does not hold."""

    version: str = Field(max_length=40)
    missing: list[str]


class PredictionSummary(Strict):
    """What a site tells of its predictions.

    `images` were segmented; `shares` of them by each model, rare ones together as `other`; `review` should be looked
    at by a person and `failed` could not be read: 0, of at least five patients, or None for a few. With fewer than
    five patients (or the site's own `minimum`) everything is None.
    """

    images: Count | None
    shares: dict[str, Share] | None
    confidence: Share | None
    review: Count | None
    failed: Count | None
    seconds: float = Field(ge=0)
    dice: dict[str, Share] | None
    labeled: Count | None


class ScoreSummary(Strict):
    """What a site tells of the models' scores: mean Dice by model and region over its images; None for too few."""

    images: Count | None
    models: dict[str, dict[str, Share]] | None
    seconds: float = Field(ge=0)


Summary = PredictionSummary | ScoreSummary
Reply = TypeVar("Reply", bound=Strict)
SUMMARIES: dict[str, type[PredictionSummary] | type[ScoreSummary]] = {PREDICT: PredictionSummary, SCORE: ScoreSummary}


def read_reply(schema: type[Reply], info: object, names: set[str], fields: tuple[str, ...]) -> Reply:
    """A site's words, held against their schema; the keys of `fields` must be among `names`, which the server knows."""
    try:
        reply = schema.model_validate(info, strict=True)
    except ValidationError as error:
        raise FedSuperError(f"its answer does not fit ({first_problem(error)})") from None
    for field in fields:
        if not set(getattr(reply, field) or {}) <= names:
            raise FedSuperError(f"its answer names {field} that the server does not know")
    return reply
