"""Choosing gamma, the selector's threshold, on the seen sites' validation data (never on test data or outside sites).

Every site tells how its mean Dice would change with gamma; the server picks one gamma for all. Only sums over a site's
images travel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from fedsuper.errors import FedSuperError
from fedsuper.schema import Strict

# Fine near 1, where the confidence of a trained selector lies.
GRID = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
# Validation Dice that differs by less is a tie: a few pixels of one image.
TIE = 1e-4


class GammaCurve(Strict):
    """A site's part of the curve: Dice summed over its images, and how many of them the global model gets."""

    gamma: list[float]
    dice_sum: list[Annotated[float, Field(strict=True, ge=0)]] = Field(min_length=len(GRID), max_length=len(GRID))
    to_global: list[Annotated[int, Field(strict=True, ge=0)]] = Field(min_length=len(GRID), max_length=len(GRID))
    images: int = Field(strict=True, ge=1)

    @model_validator(mode="after")
    def _within_its_images(self, info: ValidationInfo) -> GammaCurve:
        if self.gamma != list(GRID):
            raise ValueError("its gamma curve is not over this version's grid")
        check_images(self.images, [*self.dice_sum, *self.to_global], info)
        return self


def check_images(images: int, sums: Iterable[float], info: ValidationInfo) -> None:
    """Refuse sums of Dice or counts above the number of images, and more images than the site described."""
    if any(value > images + 1e-6 for value in sums):
        raise ValueError("sums above the number of images")
    limit = (info.context or {}).get("images")
    if limit is not None and images > limit:
        raise ValueError(f"counts {images} images, the site described {limit}")


def choose_gamma(curves: Mapping[str, Mapping[str, Any]], wanted: float | Literal["auto"]) -> dict[str, Any]:
    """One gamma for the federation, with the curve it was read from: means over sites of the sites' mean Dice.

    `auto` takes the best; of gammas whose Dice ties with the best (within 1e-4) the LARGEST. On the seen sites they are
    worth the same, but a larger gamma sends more of the images the selector has never seen the like of to the global
    model, which is what the threshold is for. A number is kept as it is; the curve is still written beside it.
    """
    for site, curve in curves.items():
        if list(curve["gamma"]) != list(GRID) or not curve["images"] > 0:
            raise FedSuperError(f"{site}: its gamma curve is not over this version's grid; "
                                "install the same FedSuper everywhere")
    points = []
    for index, gamma in enumerate(GRID):
        dice = [curve["dice_sum"][index] / curve["images"] for curve in curves.values()]
        share = [curve["to_global"][index] / curve["images"] for curve in curves.values()]
        points.append({"gamma": gamma, "dice": _mean(dice), "global_share": _mean(share)})
    best = max(point["dice"] for point in points)
    tied = [point["gamma"] for point in points if point["dice"] >= best - TIE]
    chosen = max(tied) if wanted == "auto" else wanted
    if not 0 <= chosen <= 1:
        raise FedSuperError(f"gamma must lie in [0, 1] or be auto, got {wanted}")
    return {"gamma": chosen, "gamma_curve": points}


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
