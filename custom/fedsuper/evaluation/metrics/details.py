"""Beside Dice, over all images of a method: boundary distances by site and region, and errors of measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from fedsuper.evaluation.evaluate import ScoredImage
from fedsuper.evaluation.metrics.boundaries import TOLERANCE_MM, TOLERANCE_SHARE, Boundary
from fedsuper.evaluation.metrics.measurements import summarize_errors

NAMES = [field.name for field in fields(Boundary)]


def detail_summary(rows: Sequence[ScoredImage]) -> dict[str, Any]:
    """`boundaries` and `measurements` for `metrics.json`; empty where no image was scored in detail.

    Like Dice, distances go over a site's images first, then over sites. Sites with and without a spacing have no common
    unit: then there is no average over them.
    """
    detailed = [row for row in rows if row.detail is not None]
    if not detailed:
        return {}
    sites = dict.fromkeys(row.site for row in detailed)
    per_site = {site: _means([row for row in detailed if row.site == site]) for site in sites}
    units = sorted({row.detail.unit for row in detailed if row.detail})
    boundaries: dict[str, Any] = {
        "unit": units[0] if len(units) == 1 else "mixed",
        "tolerance": {"mm": TOLERANCE_MM, "px": f"{TOLERANCE_SHARE:.0%} of the longer side"},
        "per_site": per_site,
    }
    if len(units) == 1:
        boundaries["client_avg"] = {
            region: {name: float(np.mean([means[region][name] for means in per_site.values()])) for name in NAMES}
            for region in next(iter(per_site.values()))
        }
    measured = summarize_errors([row.detail.measured for row in detailed if row.detail])
    return {"boundaries": boundaries, "measurements": measured}


def _means(rows: Sequence[ScoredImage]) -> dict[str, dict[str, float]]:
    found = [row.detail.boundaries for row in rows if row.detail]
    return {
        region: {name: float(np.mean([getattr(one[region], name) for one in found])) for name in NAMES}
        for region in found[0]
    }
