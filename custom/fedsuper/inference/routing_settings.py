"""Other routing settings for a super model at hand: a hospital may tune differently from what the study foresaw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fedsuper.config import read_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.errors import FedSuperError

PREFIX = "routing."


def with_routing(super_model: SuperModel, **changes: Any) -> SuperModel:
    """The same super model with other routing settings in its study; the weights are shared."""
    study = super_model.manifest["study"]
    changed = study | {"routing": study.get("routing", {}) | changes}
    return replace(super_model, manifest=super_model.manifest | {"study": changed})


def override_routing(super_model: SuperModel, overrides: Sequence[str]) -> SuperModel:
    """Apply `routing.key=value` overrides; everything else in the study belongs to the training and is refused."""
    for override in overrides:
        if not override.startswith(PREFIX):
            raise FedSuperError(f"--set {override}: a trained super model takes routing settings only, "
                                "for example routing.shape=false")
    if not overrides:
        return super_model
    study = read_study(None, list(overrides), base=super_model.manifest["study"])
    return with_routing(super_model, **study.routing.model_dump(mode="json"))
