"""After training: scores on the test split, what the report wants to see, and the table that is printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsuper.config.reading import parse_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import CaseStore, splits_beside
from fedsuper.evaluation.data_counts import write_counts
from fedsuper.evaluation.exhibits.examples import write_examples
from fedsuper.evaluation.exhibits.feature_map import write_features
from fedsuper.evaluation.results import score, write_results
from fedsuper.evaluation.run_files.names import SUPER_MODEL
from fedsuper.evaluation.run_files.records import told_by_sites
from fedsuper.evaluation.text_tables import results_table, text_table
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.overrides import override_prediction
from fedsuper.inference.supermodel_manifest import read_manifest
from fedsuper.train.device import Compute


def score_run(out: Path, data_root: Path | None) -> str:
    """Score `out/supermodel`. Without the data (production) the sites' own test scores are told instead."""
    out = Path(out)
    if data_root is None:
        return _told_by_sites(read_manifest(out / SUPER_MODEL))
    super_model = load_super_model(out / SUPER_MODEL)
    store = CaseStore(data_root, splits_beside(out / SUPER_MODEL))
    table = _evaluate(super_model, store, out, "test", None, None)
    shown = {super_model.manifest["method"]: super_model}
    write_examples(out, store, shown)
    write_features(out, store, shown)
    write_counts(out, store, super_model)
    return table


def evaluate_command(
    folder: Path,
    data_root: Path,
    out: Path,
    split: str,
    mode: str | None,
    gamma: float | None,
    overrides: Sequence[str] = (),
) -> str:
    """`fedsuper evaluate`: one super model, one mode, one part of the split; `overrides` change how it predicts."""
    if gamma is not None and not 0 <= gamma <= 1:
        raise FedSuperError(f"--gamma {gamma}: must lie in [0, 1]")
    super_model = override_prediction(load_super_model(folder), overrides)
    return _evaluate(super_model, CaseStore(data_root, splits_beside(folder)), out, split, mode, gamma)


def _evaluate(
    super_model: SuperModel, store: CaseStore, out: Path, split: str, mode: str | None, gamma: float | None
) -> str:
    manifest = super_model.manifest
    compute = Compute.from_config(parse_study(manifest["study"]).compute)
    name = manifest["method"] if mode in (None, super_model.mode) else f"{manifest['method']} ({mode})"
    seed = manifest["study"]["seed"]
    scored = score(name, seed, super_model, store, split, mode, gamma, compute)
    return results_table(write_results(out, store.root, [scored], split))


def _told_by_sites(manifest: dict[str, Any]) -> str:
    told = told_by_sites(manifest)
    regions = list(next(iter(told.values()), {}))
    rows = [
        [site, *(f"{scores[region]:.4f}" if region != "n" else str(scores[region]) for region in regions)]
        for site, scores in told.items()
    ]
    return text_table(["site", *regions], rows)
