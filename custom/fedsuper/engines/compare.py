"""`fedsuper compare`: several methods and seeds, one table. Finished runs are kept, so a broken comparison goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuper.config import Study
from fedsuper.core.supermodel import SuperModel
from fedsuper.data.layout import find_sites
from fedsuper.engines.run import run_study
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import CaseStore
from fedsuper.evaluation.results import score, write_results
from fedsuper.evaluation.tables import results_table
from fedsuper.files import atomic_write_json
from fedsuper.inference.artefact import load_super_model
from fedsuper.methods import METHODS, method_class
from fedsuper.report.examples import write_examples
from fedsuper.report.features import write_features
from fedsuper.report.reading import FEATURES
from fedsuper.train.device import Compute

DEFAULT_METHODS = ("centralized", "local", "fedavg", "fedsm")


def variant(study: Study, row: str) -> Study:
    """The study of one row: a method and what it changes, for example `fedsm+personal=ft+rounds=20`.

    A change is one of the method's own knobs or any key of the study (`fedbn+model.norm=batch`).
    """
    method, *changes = row.split("+")
    knobs = method_class(method).Knobs.model_fields
    own = {field.alias or name for name, field in knobs.items()}
    if "/" in row:
        raise FedSuperError(f"--methods {row}: a row names a folder, so it cannot hold a '/'; use --set instead")
    if any(change.partition("=")[0].strip() in ("method", "seed") for change in changes):
        raise FedSuperError(f"--methods {row}: the method comes first in a row and seeds have --seeds; leave them out")
    return study.with_method(method).with_changes(
        [f"{method}.{change}" if change.partition("=")[0] in own else change for change in changes]
    )


@dataclass(frozen=True)
class Comparison:
    """What is compared (`methods`: rows of the table, see `variant`), with which seeds and data, where and how."""

    study: Study
    data_root: Path
    methods: list[str]
    seeds: list[int]
    out: Path
    engine: str = "local"
    threads: int | None = None

    def __post_init__(self) -> None:
        for row in self.methods:
            variant(self.study, row)  # a mistake in the last row is told before the first is trained

    def folder(self, row: str, seed: int, below: Path | None = None) -> Path:
        """Where a row's run with one seed lies, in `out` or in another folder."""
        return (below or self.out) / "runs" / row / f"seed-{seed}"

    def trained(self, data_root: Path, below: Path | None = None) -> Iterator[tuple[str, int, SuperModel]]:
        """Every row and seed with its super model, trained where it is not there yet."""
        for row in self.methods:
            for seed in self.seeds:
                folder = self.folder(row, seed, below)
                train_once(variant(self.study, row).with_seed(seed), data_root, folder, self.engine, self.threads)
                yield row, seed, load_super_model(folder / "supermodel")


def rows_named(text: str | None) -> list[str]:
    """The rows of `--methods`: comma-separated, each once; `all` stands for every method."""
    rows: list[str] = []
    for name in text.split(",") if text else DEFAULT_METHODS:
        rows.extend(METHODS if name == "all" else [name])
    return list(dict.fromkeys(rows))


def compare(what: Comparison) -> dict[str, Any]:
    """Train every method with every seed, score them on the test split, write metrics.json and per_image.csv."""
    find_sites(what.data_root)
    store, compute = CaseStore(what.data_root), Compute.from_config(what.study.compute)
    scored = [score(row, seed, model, store, compute=compute) for row, seed, model in what.trained(what.data_root)]
    atomic_write_json(
        what.out / "compare.json",
        {
            "data": str(what.data_root),
            "methods": what.methods,
            "seeds": what.seeds,
            "study": what.study.to_json(),
            "engine": what.engine,
        },
    )
    return write_results(what.out, what.data_root, scored)


def compare_and_tell(what: Comparison) -> str:
    """`fedsuper compare`: the comparison, what the report wants to see of the first seed, and the table as text."""
    metrics = compare(what)
    first = {row: what.folder(row, what.seeds[0]) / "supermodel" for row in what.methods}
    write_examples(what.out / "examples", what.data_root, first)
    write_features(what.out / FEATURES, what.data_root, first)
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
