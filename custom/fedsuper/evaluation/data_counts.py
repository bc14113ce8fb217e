"""How many patients and images each site has in every part of its split (FedSM, Tables 1, 2 and 8)."""

from __future__ import annotations

from pathlib import Path

from fedsuper.core.supermodel import SuperModel
from fedsuper.data.layout import find_sites
from fedsuper.data.splits import PARTS
from fedsuper.evaluation.cases import CaseStore
from fedsuper.evaluation.evaluate import training_splits
from fedsuper.evaluation.run_files.names import DATA
from fedsuper.files import atomic_write_json
from fedsuper.inference.predictor import Predictor

Counts = dict[str, dict[str, dict[str, int]]]  # site -> part -> patients, images


def write_counts(run: Path, store: CaseStore, super_model: SuperModel) -> None:
    """Write `run/data.json`. A volume is one image here; how many slices the nets see is in the manifest."""
    known = Predictor(super_model)
    digests = training_splits(super_model, store.root)
    counts: Counts = {}
    for site in find_sites(store.root):
        for part in PARTS:
            items = store.items(site, part, known.study, known.task, digests.get(site))
            found = {"patients": len({item.case for item in items}), "images": len(items)}
            counts.setdefault(site, {})[part] = found
    atomic_write_json(Path(run) / DATA, counts)
