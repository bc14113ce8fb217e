"""What a site may answer: the plain part of every reply, with its types and ranges.

Ranges that depend on the study come as `known` (see `Known`): the round that was asked, what the site described, the
models there are. They are checked in the same pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field, StrictInt, ValidationInfo, field_validator

from fedsuper.federation.message_schema import Count, Json, Plain
from fedsuper.schema import Strict

PARTS = {"train", "val", "test"}
CHANGES = {"added", "removed", "moved"}
MOST_IMAGES = 10**7  # slices of one site
# What a metric may be called before its model's name, and whether it is a share; a region's has the region's name last.
METRICS = {"val": True, "val-agreement": True, "val-loss": False, "loss": False}
OF_REGION = "val-region"

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Positive = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Images = Annotated[StrictInt, Field(ge=1, le=MOST_IMAGES)]
Text = Annotated[str, Field(strict=True, max_length=200)]
Digest = Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{8,64}$")]


@dataclass(frozen=True)
class Known:
    """What the server knows when it opens an answer of `site`: with it a well-formed lie is told from the truth.

    `samples` is what the site described, by part; `folders` the names under which it may tell test scores.
    """

    site: str
    round: int = 0
    samples: dict[str, int] = field(default_factory=dict)
    roles: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    experts: frozenset[str] = frozenset()
    calibration: type[Strict] | None = None


def known(info: ValidationInfo) -> Known | None:
    """What the server gave to `opened`; None at the site that writes the answer."""
    return info.context if isinstance(info.context, Known) else None


def exactly(names: set[str] | frozenset[str], given: set[str]) -> None:
    """Refuse keys that are missing or too many."""
    if given != names:
        raise ValueError(f"expected {', '.join(sorted(names))}")


def at_most(limit: int, images: int) -> None:
    """Refuse a count above what the site described."""
    if images > limit:
        raise ValueError(f"counts {images} images, the site described {limit}")


class Spread(Plain):
    """Mean and standard deviation over at least five patients."""

    mean: Number
    sd: Positive


Spreads = dict[Text, Spread] | None


class Fingerprint(Plain):
    """Aggregates of a site's images, see `data.fingerprint`."""

    task: Json
    channels: Annotated[StrictInt, Field(ge=1, le=64)]
    cases: Images | None
    images: Images | None
    size: Spreads
    spacing: Spreads
    intensity: Spreads
    regions: dict[Text, Spreads]


class Software(Plain):
    """What a machine computes with; `code` is a digest of the package's own files."""

    fedsuper: Text
    code: Digest
    torch: Text
    nvflare: Text | None


def _parts(samples: dict[str, int]) -> dict[str, int]:
    exactly(PARTS, set(samples))
    if samples["train"] < 1:
        raise ValueError("a site without training images cannot take part")
    return samples


def _kinds(changes: dict[str, int]) -> dict[str, int]:
    exactly(CHANGES, set(changes))
    return changes


class DescribeReply(Plain):
    """What a site tells before round 1; nothing of a single patient. `study` and `data` are digests."""

    software: Software
    study: Digest
    data: Digest
    task: Json
    samples: Annotated[dict[Text, Annotated[Count, Field(le=MOST_IMAGES)]], AfterValidator(_parts)]
    fingerprint: Fingerprint
    splits: Annotated[dict[Text, Digest], Field(min_length=1, max_length=1000)]
    changes: Annotated[dict[Text, Count], AfterValidator(_kinds)]


class RoundReply(Plain):
    """Every answer after that names the round it answers: one that was kept and sent again is refused."""

    round: Count

    @field_validator("round")
    @classmethod
    def _this_round(cls, value: int, info: ValidationInfo) -> int:
        asked = known(info)
        if asked and value != asked.round:
            raise ValueError(f"answers round {value + 1}, this is round {asked.round + 1}")
        return value


class FinishReply(RoundReply):
    """The scores of what was sent: shares as shares, and of the method's models alone."""

    metrics: dict[Text, Number]

    @field_validator("metrics")
    @classmethod
    def _declared(cls, value: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        asked = known(info)
        for name, number in value.items():
            kind, _, role = name.partition("/")
            if kind == OF_REGION:
                kind, (role, _, region) = "val", role.partition("/")
                if asked and region not in asked.regions:
                    raise ValueError(f"{name} is of no region of the task")
            if kind not in METRICS or (asked and role not in asked.roles):
                raise ValueError(f"{name} is no metric of this method")
            if METRICS[kind] and not 0 <= number <= 1:
                raise ValueError(f"{name} is {number:g}, expected 0 to 1")
        return value


class TrainReply(FinishReply):
    """With the number of training samples; `releases` counts what it cost the site's privacy (`privacy.noise`)."""

    samples: Images
    releases: Count = 0

    @field_validator("samples")
    @classmethod
    def _described(cls, value: int, info: ValidationInfo) -> int:
        asked = known(info)
        if asked:
            at_most(asked.samples["train"], value)
        return value
