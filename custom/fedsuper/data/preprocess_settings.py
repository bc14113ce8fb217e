"""What a study may say about the deterministic part of the input pipeline: one schema for study, site and artifact."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field

from fedsuper.schema import Strict

Normalize = Literal["zscore", "minmax", "percentile"]


class PreprocessSettings(Strict):
    """A study's `preprocess` section.

    `scope` is what shares its statistics: each slice (`image`) or all slices of a file (`volume`). `slices` is the
    number of neighboring slices given as channels (1, or 3: the one before, the slice itself, the one after).
    `normalise` is how super models made before version 0.2 spell `normalize`.
    """

    normalize: Normalize = Field("zscore", validation_alias=AliasChoices("normalize", "normalise"))
    scope: Literal["image", "volume"] = "image"
    slices: Literal[1, 3] = 1


class Preprocess(PreprocessSettings):
    """The deterministic way from a file to the network's input, a square of `image_size` pixels a side."""

    image_size: int = Field(ge=8, le=4096, strict=True)
