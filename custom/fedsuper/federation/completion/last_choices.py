"""What the sites' last measures decide (`inference.masks.mask_measures`): the manifest's entries of how it predicts.

`selection`: the selector and gate that validation Dice speaks for, with every option's, the best of them, by how much
it leads and the error of that; and the gamma and temperature that belong to them. `one_piece`: the regions that lose
their islands. `quality`: the regression that judges a mask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.validated.one_piece import worth_cleaning
from fedsuper.core.validated.quality import fit_quality
from fedsuper.core.validated.selection_choice import AS_IT_IS, Selection, Verdict, choose_option
from fedsuper.federation.door.last_replies import CalibrateReply

Measured = tuple[CalibrateReply, FeatureSums | None]


def choices(manifest: Mapping[str, Any], told: Mapping[str, Measured]) -> dict[str, Any]:
    """The entries to add; a site that did not answer has no voice."""
    tables = {site: reply.masks.model_dump() for site, (reply, _) in told.items() if reply.masks}
    found: dict[str, Any] = {}
    if tables:
        verdict = choose_option(tables)
        cleaned = {site: table["options"][verdict.taken] | {"images": table["images"]}
                   for site, table in tables.items()}
        found |= {"one_piece": worth_cleaning(cleaned)} | _selected(manifest, verdict)
    sums = [each for _, each in told.values() if each is not None]
    widths = {each.width for each in sums}
    model = fit_quality(sums) if len(widths) == 1 else None
    return found | ({} if model is None else {"quality": vars(model)})


def _selected(manifest: Mapping[str, Any], verdict: Verdict) -> dict[str, Any]:
    if verdict.taken == AS_IT_IS:
        return {}
    chosen = Selection.named(verdict.taken)
    own = manifest.get("selectors", {}).get(chosen.kind, {})
    found: dict[str, Any] = {"selection": {"kind": chosen.kind, "gate": chosen.gate, "dice": dict(verdict.dice),
                                           "best": verdict.best, "lead": verdict.lead, "error": verdict.error}}
    found |= {key: own[key] for key in ("gamma", "gamma_curve") if own.get(key) is not None}
    if own.get("temperature") is not None and manifest.get("utility"):
        found["utility"] = manifest["utility"] | {"temperature": own["temperature"]}
    return found
