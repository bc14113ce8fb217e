"""After training: scores on the test split, what the report wants to see, and the table that is printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsuper.config import parse_study
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import CaseStore
from fedsuper.evaluation.results import score, write_results
from fedsuper.evaluation.tables import results_table, text_table
from fedsuper.inference.artefact import load_super_model
from fedsuper.inference.routing_settings import override_routing
from fedsuper.report.examples import write_examples
from fedsuper.report.features import write_features
from fedsuper.report.reading import FEATURES
from fedsuper.train.device import Compute


def score_run(out: Path, data_root: Path | None) -> str:
    """Score `out/supermodel`. Without the data (production) the sites' own test scores are told instead."""
    out = Path(out)
    if data_root is None:
        return _told_by_sites(load_super_model(out / "supermodel").manifest)
    table = evaluate_command(out / "supermodel", data_root, out, "test", None, None)
    folder = {load_super_model(out / "supermodel").manifest["method"]: out / "supermodel"}
    write_examples(out / "examples", data_root, folder)
    write_features(out / FEATURES, data_root, folder)
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
    """`fedsuper evaluate`: one super model, one mode, one part of the split; `overrides` change routing settings."""
    super_model = override_routing(load_super_model(folder), overrides)
    manifest = super_model.manifest
    if gamma is not None and not 0 <= gamma <= 1:
        raise FedSuperError(f"--gamma {gamma}: must lie in [0, 1]")
    compute = Compute.from_config(parse_study(manifest["study"]).compute)
    name = manifest["method"] if mode in (None, super_model.mode) else f"{manifest['method']} ({mode})"
    seed = manifest["study"]["seed"]
    scored = score(name, seed, super_model, CaseStore(data_root), split, mode, gamma, compute)
    return results_table(write_results(out, data_root, [scored], split))


def _told_by_sites(manifest: dict[str, Any]) -> str:
    told = {
        folder: scores
        for by_folder in manifest["metrics"].get("test", {}).values()
        for folder, scores in by_folder.items()
    }
    regions = list(next(iter(told.values()), {}))
    rows = [
        [site, *(f"{scores[region]:.4f}" if region != "n" else str(scores[region]) for region in regions)]
        for site, scores in told.items()
    ]
    return text_table(["site", *regions], rows)
