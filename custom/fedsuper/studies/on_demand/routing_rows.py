"""Test-time routing on a site that took no part: one setting changed at a time, and the tuning watched.

IOP-FL's Table III (`level=global`), Fig. 8 (each term of the loss left out), Fig. 7b (Dice against time) and Fig. 9
(weight variation of the inside models, test-time loss).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.evaluation.evaluate import ScoredImage
from fedsuper.evaluation.exhibits.routing_trace import trace_routing, weight_variation
from fedsuper.evaluation.outside import BASELINE, score_outside
from fedsuper.inference.overrides import with_routing
from fedsuper.train.device import Compute

ROUTE = "route"
VARIANTS: dict[str, dict[str, Any]] = {
    "untuned": {"epochs": 0},
    "level=global": {"level": "global"},
    "consistency=false": {"consistency": False},
    "shape=false": {"shape": False},
    "entropy=false": {"entropy": False},
}


def routing_rows(
    super_model: SuperModel, data_root: Path, left: str, compute: Compute
) -> dict[str, list[ScoredImage]]:
    """A row's label to its scored images for each variant of the routing."""
    found = {}
    for name, changes in VARIANTS.items():
        (row,) = score_outside(with_routing(super_model, **changes), data_root, left, [ROUTE], compute)
        found[f" ({ROUTE}, {name})"] = row.images
    return found


def routing_record(super_model: SuperModel, data_root: Path, left: str, compute: Compute) -> dict[str, Any]:
    """Plain JSON: the curve of the tuning, the routing matrix, the inside models' variation, and what costs no time."""
    still = score_outside(super_model, data_root, left, [GLOBAL, BASELINE], compute)
    references = {row.mode: sum(image.mean for image in row.images) / len(row.images) for row in still if row.images}
    trace = trace_routing(super_model, data_root, left, compute).to_json()
    return {**trace, "variation": weight_variation(super_model), "references": references}
