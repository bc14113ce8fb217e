"""`fedsuper compare`: several methods and seeds, one table. Finished runs are kept, so a broken comparison goes on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from fedsuper.config import Study
from fedsuper.data.layout import find_sites
from fedsuper.engines.run import run_study
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import CaseStore
from fedsuper.evaluation.results import score, write_results
from fedsuper.evaluation.tables import results_table
from fedsuper.files import atomic_write_json
from fedsuper.inference.artefact import load_super_model
from fedsuper.methods import method_class
from fedsuper.report.examples import write_examples
from fedsuper.train.device import Compute

DEFAULT_METHODS = ("centralized", "local", "fedavg", "fedsm")


def compare(
    study: Study,
    data_root: Path,
    methods: list[str],
    seeds: list[int],
    out: Path,
    engine: str = "local",
    threads: int | None = None,
) -> dict[str, Any]:
    """Train every method with every seed, score them on the test split, write metrics.json and per_image.csv."""
    data_root, out = Path(data_root), Path(out)
    studies = {name: study.with_method(name) for name in methods}  # all knobs are checked before the first run
    find_sites(data_root)
    scored, store = [], CaseStore(data_root)
    for name in methods:
        for seed in seeds:
            folder = out / "runs" / name / f"seed-{seed}"
            train_once(studies[name].with_seed(seed), data_root, folder, engine, threads)
            super_model = load_super_model(folder / "supermodel")
            scored.append(score(name, seed, super_model, store, compute=Compute.from_config(study.compute)))
    atomic_write_json(
        out / "compare.json",
        {"data": str(data_root), "methods": methods, "seeds": seeds, "study": study.to_json(), "engine": engine},
    )
    return write_results(out, data_root, scored)


def compare_and_tell(
    study: Study,
    data_root: Path,
    methods: list[str],
    seeds: list[int],
    out: Path,
    engine: str = "local",
    threads: int | None = None,
) -> str:
    """`fedsuper compare`: the comparison, examples for the report, and the table as text."""
    metrics = compare(study, data_root, methods, seeds, out, engine, threads)
    first = {name: Path(out) / "runs" / name / f"seed-{seeds[0]}" / "supermodel" for name in methods}
    write_examples(Path(out) / "examples", Path(data_root), first)
    return results_table(metrics)


def train_once(study: Study, data_root: Path, folder: Path, engine: str, threads: int | None) -> None:
    """Run a study unless its super model is already there; an unfinished run is resumed."""
    if (folder / "supermodel" / "supermodel.json").exists():
        before = load_super_model(folder / "supermodel").manifest["study"]
        if before != study.to_json():
            raise FedSuperError(f"{folder}: holds a run of another study; give another --out, or remove the folder")
        return
    # Pooled training is not a federation: it has no place on NVFlare.
    chosen = "local" if method_class(study.method).pooled else engine
    resume = any((folder / "state" / "server").glob("round-*.safetensors"))
    if not resume and folder.exists():
        shutil.rmtree(folder)
    run_study(study, data_root, folder, chosen, threads, resume=resume)
