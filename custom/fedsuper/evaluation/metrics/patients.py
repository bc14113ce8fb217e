"""Images of one patient scored together, as the slices of a volume are.

A volume is one image; the same scan cut into pictures is many, and `cases.csv` says whose they are. Then beside the
mean over pictures there is the Dice of each patient, 2 sum |A and B| / sum (|A| + |B|) over the patient's pictures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsuper.evaluation.evaluate import ScoredImage


def patient_summary(rows: Sequence[ScoredImage]) -> dict[str, Any]:
    """`per_patient` of one method and seed, for `metrics.json`; empty where every image is a patient of its own."""
    groups: dict[tuple[str, str], list[ScoredImage]] = defaultdict(list)
    for row in rows:
        groups[row.site, row.case].append(row)
    if len(groups) == len(rows) or not all(row.detail and row.detail.overlap for row in rows):
        return {}
    by_site: dict[str, list[dict[str, float]]] = defaultdict(list)
    for (site, _), images in groups.items():
        by_site[site].append(patient_dice(images))
    per_site = {}
    for site, patients in by_site.items():
        means = {region: float(np.mean([one[region] for one in patients])) for region in patients[0]}
        per_site[site] = means | {"mean": float(np.mean(list(means.values())))}
    client_avg = float(np.mean([means["mean"] for means in per_site.values()]))
    return {"per_patient": {"per_site": per_site, "client_avg": client_avg, "n": len(groups)}}


def patient_dice(images: Sequence[ScoredImage]) -> dict[str, float]:
    """Dice per region of all images together; two empty masks agree."""
    found = {}
    for region in images[0].dice:
        both, total = (sum(i.detail.overlap[region][part] for i in images if i.detail) for part in (0, 1))
        found[region] = 2 * both / total if total else 1.0
    return found
