"""Ready studies: the papers' comparisons by name, in full for a GPU and `-small` for two cores.

A YAML file beside this one holds `about` (a line), `methods` (rows), `seeds`, `study` (its keys) and, where the paper
leaves sites out, `outside` (the rows to train without each site in turn).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from fedsuper.config import Study
from fedsuper.config.reading import change_study, parse_study
from fedsuper.errors import FedSuperError
from fedsuper.report.page import write_report
from fedsuper.studies.compare import Comparison, compare_and_tell
from fedsuper.studies.leave_out import leave_out
from fedsuper.studies.ready.ready_names import FOLDER, ready_names


@dataclass(frozen=True)
class Ready:
    """A comparison that needs nothing more than data."""

    name: str
    about: str
    study: Study
    methods: list[str]
    seeds: list[int]
    outside: list[str] = field(default_factory=list)


def read_ready(name: str, overrides: Sequence[str] = ()) -> Ready:
    """A ready study by name; `overrides` change keys of its study."""
    if name not in ready_names():
        raise FedSuperError(f"--study {name}: there is no such ready study; there are {', '.join(ready_names())}")
    found = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    study = change_study(parse_study(found["study"], name), overrides)
    return Ready(name, found["about"], study, found["methods"], found["seeds"], found.get("outside", []))


def compare_ready(
    ready: Ready, data_root: Path, out: Path, seeds: Sequence[int], engine: str = "local", threads: int | None = None,
    workers: int | None = 1,
) -> str:
    """Run it: the table inside, the table of sites left out in turn (in `out/outside`), and a report of both."""
    inside = Comparison(ready.study, data_root, ready.methods, list(seeds), out, engine, threads, workers=workers)
    told, runs = [compare_and_tell(inside)], [out]
    if ready.outside:
        without = replace(inside, methods=ready.outside, out=out / "outside")
        told.append(f"each site left out in turn:\n{leave_out(without, 'all')}")
        runs.append(without.out)
    report = out / "report.html"
    write_report(runs, report)
    return "\n\n".join([*told, f"report: {report}"])
