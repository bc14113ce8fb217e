"""What a hospital outside gains from each further site inside (IOP-FL, Fig. 7a).

Sites join in the order of their names. Every count is a federation of its own, trained once and kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fedsuper.core.supermodel import GLOBAL, SuperModel
from fedsuper.evaluation.cases import ALL
from fedsuper.evaluation.evaluate import ScoredImage, evaluate_modes
from fedsuper.evaluation.outside import score_outside
from fedsuper.evaluation.run_files.names import SUPER_MODEL
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.modes import AVERAGE
from fedsuper.studies.compare import Comparison
from fedsuper.studies.on_demand.routing_rows import ROUTE
from fedsuper.train.device import Compute

ByCount = dict[str, dict[str, float]]  # row -> number of inside sites -> mean Dice over seeds


def dice_by_count(
    what: Comparison, left: str, inside: Sequence[str], below: Path, only: Callable[[Sequence[str], Path], Path]
) -> ByCount:
    """Every row of `what` on all images of `left`, trained with 1, 2, ... of the sites `inside`.

    `only` makes a data root of some sites at a place; with all of them the run is the one that leaving out trained.
    """
    compute = Compute.from_config(what.study.compute)
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for count in range(1, len(inside) + 1):
        folder = below if count == len(inside) else below / f"inside-{count}"
        root = only(inside[:count], folder / "data")
        for cell in what.trained(what.cells(what.methods, root, folder)):
            super_model = load_super_model(cell.folder / SUPER_MODEL)
            for label, images in _scores(super_model, what.data_root, left, compute).items():
                found[f"{cell.row}{label}", count].append(float(np.mean([image.mean for image in images])))
    by_count: ByCount = {}
    for (row, count), values in found.items():
        by_count.setdefault(row, {})[str(count)] = float(np.mean(values))
    return by_count


def _scores(super_model: SuperModel, data_root: Path, left: str, compute: Compute) -> dict[str, list[ScoredImage]]:
    if super_model.global_model is None:
        return {"": evaluate_modes(super_model, data_root, [AVERAGE], ALL, compute=compute, sites=[left])[AVERAGE]}
    if len(super_model.experts()) == 1:
        return {"": score_outside(super_model, data_root, left, [GLOBAL], compute)[0].images}
    rows = score_outside(super_model, data_root, left, [GLOBAL, ROUTE], compute)
    return {f" ({row.mode})": row.images for row in rows if row.images}
