"""A hospital's tuned routing on disk: a small safetensors file beside the super model, reused without tuning.

It holds the gates, not the weights they mix, so it is worth something only with the very super model it was tuned on:
a digest of that model's experts is kept in the file and checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from torch import Tensor

from fedsuper.config import RoutingConfig
from fedsuper.core.state import State
from fedsuper.errors import FedSuperError
from fedsuper.train.checkpoint import digest, flatten, load_models, save_models

GATES = "gates"
KIND = "fedsuper-routing"
NARROW = 16  # the gates' width in files from before it was a setting


@dataclass
class SavedRouting:
    """Gates, the settings they were tuned with, and the mean routing matrix over the hospital's images."""

    gates: State
    config: RoutingConfig
    coefficients: dict[str, list[float]]
    images: int = 0


def save_routing(
    path: Path,
    gates: State,
    config: RoutingConfig,
    coefficients: Mapping[str, Tensor],
    experts: Mapping[str, State],
    images: int,
) -> None:
    """Write a tuned routing atomically."""
    values: dict[str, Any] = {
        "kind": KIND,
        "experts": list(experts),
        "super_model": experts_digest(experts),
        "config": config.model_dump(mode="json"),
        "coefficients": {layer: [float(value) for value in row] for layer, row in coefficients.items()},
        "images": images,
    }
    save_models(Path(path), {GATES: gates}, values)


def load_routing(path: Path, experts: Mapping[str, State]) -> SavedRouting:
    """Read a tuned routing; refuse one that was tuned on another super model."""
    models, values = load_models(Path(path))
    if values.get("kind") != KIND or GATES not in models:
        raise FedSuperError(f"{path}: is not a routing file; give one that predict or evaluate wrote with --mode route")
    if values.get("experts") != list(experts) or values.get("super_model") != experts_digest(experts):
        raise FedSuperError(f"{path}: was tuned on another super model ({', '.join(values.get('experts', []))}); "
                            "tune again on this one: name a file that does not exist yet")
    try:
        config = RoutingConfig.model_validate({"hidden": NARROW} | values["config"])
    except (KeyError, ValidationError):
        raise FedSuperError(f"{path}: its settings are not those of this FedSuper version; tune again") from None
    return SavedRouting(models[GATES], config, values["coefficients"], values["images"])


def experts_digest(experts: Mapping[str, State]) -> str:
    """SHA-256 over all experts' weights and names."""
    return digest(flatten(dict(experts)))
