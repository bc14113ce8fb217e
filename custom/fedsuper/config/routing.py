"""`routing`: test-time routing for hospitals outside the federation (IOP-FL, Eq. 5 to 10), and its presets.

A preset's name stands for its values; a key that is given besides it wins. `per-image` is ours: every image for itself,
from the untuned gates. `paper` is the text of IOP-FL, `as-released` what its authors' public code does, but for its
choice of the epoch by test labels and its metric: the epoch of the lowest loss is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import AliasChoices, Field, model_validator

from fedsuper.schema import Strict

Weight = float
PRESETS: dict[str, dict[str, Any]] = {
    "per-image": {},
    "paper": {"reset": False, "normalize": False, "guard": False},
    "as-released": {
        "reset": False, "normalize": False, "guard": False, "norm_statistics": "batch", "affine": True, "turns": True,
        "dropout": 0.5, "weights": (0.1, 0.0, 10.0), "batch_sum": True,
    },
}


class RoutingConfig(Strict):
    """What is mixed, how it is tuned, and by what loss.

    `hidden` is the width of the gates, 0 for twice the layer's inputs. `affine` also tunes scale and shift of norms.
    `turns` compares predictions under flips and quarter turns as well as noise. `start` is where coefficients begin:
    even, or the selector's probabilities. `guard` never keeps a state whose regions have shrunk below half of the
    untuned ones or grown beyond twice them: an empty mask has a lower loss than a good one. `weights` of consistency,
    shape and entropy; null: 1, beta, beta. `batch_sum` sums the entropy over the images of a step.
    """

    preset: Literal["per-image", "paper", "as-released"] = "per-image"
    level: Literal["layer", "global"] = "layer"
    gate: Literal["input", "static"] = "input"
    hidden: int = Field(0, ge=0)
    dropout: float = Field(0.0, ge=0, lt=1)
    normalize: bool = Field(True, validation_alias=AliasChoices("normalize", "normalise"))  # as spelled before 0.2
    start: Literal["even", "selector"] = "even"
    reset: bool = True
    norm_statistics: Literal["image", "batch", "running"] = "image"
    affine: bool = False
    epochs: int = Field(10, ge=0)
    lr: float = Field(0.001, ge=0)
    beta: float = Field(0.01, ge=0)
    radius: int = Field(10, ge=1)
    noise: float = Field(0.5, ge=0)
    turns: bool = False
    weights: tuple[Weight, Weight, Weight] | None = None
    batch_sum: bool = False
    consistency: bool = True
    shape: bool = True
    entropy: bool = True
    guard: bool = True
    patience: int = Field(0, ge=0)
    seconds_per_image: float | None = Field(None, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, raw: Any) -> Any:
        """`paper` and `{preset: paper, epochs: 3}` are read as the values they stand for."""
        given = {"preset": raw} if isinstance(raw, str) else raw
        name = given.get("preset") if isinstance(given, Mapping) else None
        return PRESETS[name] | dict(given) if name in PRESETS else given
