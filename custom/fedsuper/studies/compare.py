"""`fedsuper compare`: several methods and seeds, one table. Finished runs are kept, so a broken comparison goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuper.config import Study
from fedsuper.config.reading import change_method, change_study
from fedsuper.data.layout import find_sites
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.cases import CaseStore, splits_beside
from fedsuper.evaluation.data_counts import write_counts
from fedsuper.evaluation.exhibits.examples import write_examples
from fedsuper.evaluation.exhibits.feature_map import write_features
from fedsuper.evaluation.exhibits.loss_surface import write_loss_surface
from fedsuper.evaluation.results import score, write_results
from fedsuper.evaluation.run_files import names
from fedsuper.evaluation.run_files.names import COMPARE, SUPER_MODEL
from fedsuper.evaluation.text_tables import results_table
from fedsuper.files import atomic_write_json
from fedsuper.inference.artifact import load_super_model
from fedsuper.methods import METHODS, method_class
from fedsuper.studies.cells.cell import Cell
from fedsuper.studies.cells.side_by_side import in_order, train_cells
from fedsuper.studies.on_demand.attacked_image import write_inversion
from fedsuper.studies.on_demand.exhibit_names import INVERSION, LOSS_SURFACE
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
    overrides = [f"{method}.{change}" if change.partition("=")[0] in own else change for change in changes]
    return change_study(change_method(study, method), overrides)


@dataclass(frozen=True)
class Comparison:
    """What is compared (`methods`: rows of the table, see `variant`), with which seeds and data, where and how.

    `workers` cells are trained at a time (None: by cores and memory); `exhibits` names further figures of the report
    that are worth their time only when asked for.
    """

    study: Study
    data_root: Path
    methods: list[str]
    seeds: list[int]
    out: Path
    engine: str = "local"
    threads: int | None = None
    exhibits: tuple[str, ...] = ()
    workers: int | None = 1

    def __post_init__(self) -> None:
        for row in self.methods:
            variant(self.study, row)  # a mistake in the last row is told before the first is trained

    def folder(self, row: str, seed: int, below: Path | None = None) -> Path:
        """Where a row's run with one seed lies, in `out` or in another folder."""
        return names.cell(below or self.out, row, seed)

    def cells(self, rows: Sequence[str], data_root: Path | None = None, below: Path | None = None) -> list[Cell]:
        """Every row with every seed, on `data_root` and in `out` or in other folders."""
        return [
            Cell(row, seed, variant(self.study, row).with_seed(seed), data_root or self.data_root,
                 self.folder(row, seed, below), self.engine, self.threads)
            for row in rows for seed in self.seeds
        ]

    def trained(self, cells: Sequence[Cell]) -> Iterator[Cell]:
        """The cells in order, each as soon as it and those before it are trained, where they were not there already."""
        return in_order(cells, train_cells(cells, self.workers))


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
    scored, cells = {}, what.cells(what.methods)
    for cell in train_cells(cells, what.workers):  # each is scored while others train
        store.frozen |= splits_beside(cell.folder / SUPER_MODEL)
        model = load_super_model(cell.folder / SUPER_MODEL)
        scored[cell.folder] = score(cell.row, cell.seed, model, store, compute=compute)
    atomic_write_json(
        what.out / COMPARE,
        {
            "data": str(what.data_root),
            "methods": what.methods,
            "seeds": what.seeds,
            "study": what.study.to_json(),
            "engine": what.engine,
        },
    )
    return write_results(what.out, what.data_root, [scored[cell.folder] for cell in cells])


def compare_and_tell(what: Comparison) -> str:
    """`fedsuper compare`: the comparison, what the report wants to see of the first seed, and the table as text."""
    metrics = compare(what)
    store, first = CaseStore(what.data_root), {}
    for row in what.methods:
        folder = what.folder(row, what.seeds[0]) / SUPER_MODEL
        store.frozen |= splits_beside(folder)
        first[row] = load_super_model(folder)
    write_examples(what.out, store, first)
    write_features(what.out, store, first)
    write_counts(what.out, store, next(iter(first.values())))
    if LOSS_SURFACE in what.exhibits:
        write_loss_surface(what.out, store, first)
    if INVERSION in what.exhibits:
        write_inversion(what.out, store, next(iter(first.values())))
    return results_table(metrics)

