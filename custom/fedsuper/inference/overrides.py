"""Other settings for a super model at hand: a hospital may predict differently from what the study foresaw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fedsuper.config.reading import read_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.augment.settings import shown_flips
from fedsuper.errors import FedSuperError

# The sections of a study that say how to predict; all others say how the models were trained.
SECTIONS = ("routing", "modes", "prediction")

# Where the norm layers' statistics are set, mode by mode. `global-stats` has each image's by its very name.
STATISTICS_KEYS = (
    "prediction.norm_statistics",
    "routing.norm_statistics",
    "modes.tent.norm_statistics",
    "modes.ttt.norm_statistics",
)


def prediction_switches(
    tta: bool = False, norm_statistics: str | None = None, least_quality: float | None = None
) -> list[str]:
    """The overrides behind `--tta`, `--norm-statistics` (for every mode, so that rows compare) and `--least-quality`.
    """
    chosen = [f"{key}={norm_statistics}" for key in STATISTICS_KEYS] if norm_statistics else []
    chosen += [] if least_quality is None else [f"prediction.least_quality={least_quality}"]
    return chosen + (["prediction.tta=true"] if tta else [])


def with_routing(super_model: SuperModel, **changes: Any) -> SuperModel:
    """The same super model with other routing settings in its study; the weights are shared."""
    study = super_model.manifest["study"]
    before = {} if "preset" in changes else study.get("routing", {})  # a preset stands for all keys
    changed = study | {"routing": before | changes}
    return replace(super_model, manifest=super_model.manifest | {"study": changed})


def override_prediction(super_model: SuperModel, overrides: Sequence[str]) -> SuperModel:
    """Apply `section.key=value` overrides; what belongs to the training is refused."""
    for override in overrides:
        if override.partition(".")[0] not in SECTIONS or "=" not in override:
            raise FedSuperError(f"--set {override}: a trained super model takes keys of {', '.join(SECTIONS)} only, "
                                "for example routing.shape=false")
    if not overrides:
        return super_model
    base = super_model.manifest["study"]
    if any(override.startswith("routing.preset=") for override in overrides):
        base = base | {"routing": {}}  # a preset stands for all keys, not for those alone that nobody set
    study = read_study(None, list(overrides), base=base)
    asked = study.prediction.tta and any(override.startswith("prediction.tta=") for override in overrides)
    if asked and len(shown_flips(study.augment)) == 1:
        raise FedSuperError("--tta: this super model's training showed no flipped image (augment.flip and "
                            "augment.flip_vertical are off), so there is nothing to average; leave --tta out")
    return replace(super_model, manifest=super_model.manifest | {"study": study.to_json()})
