"""What a finished run promises on validation data: the only score that may choose between runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

PERSONAL, GLOBAL, SELECTOR = "personal", "global", "selector"


def validation_dice(manifest: Mapping[str, Any]) -> float | None:
    """Validation Dice of what the super model of `manifest` would answer with; None where it was not validated.

    A gated super model has been tried on the sites' validation images with the threshold it uses. Otherwise it is the
    client average of the personalized models, or the global model's score where there are none or they are not used.
    """
    gamma, curve = manifest.get("gamma"), manifest.get("gamma_curve")
    if gamma is not None and curve:
        return float(min(curve, key=lambda point: abs(point["gamma"] - gamma))["dice"])
    by_role: dict[str, list[float]] = {}
    for key, kept in ((manifest.get("metrics") or {}).get("validation") or {}).items():
        by_role.setdefault(key.partition("/")[0], []).append(float(kept["score"]))
    order = [GLOBAL, PERSONAL] if manifest.get("mode") == GLOBAL else [PERSONAL, GLOBAL]
    known = [role for role in (*order, *by_role) if role in by_role and role != SELECTOR]
    return float(np.mean(by_role[known[0]])) if known else None
