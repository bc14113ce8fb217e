"""What personalization adds, a federation of its own for every seed: `python -m ...by_seed --out RUN [--seeds 0,1,2]`.

Every seed draws its own images, first weights, order and augmentation (`hospitals`), and every row is trained on them.
Finished rows are kept, so a broken measurement goes on. Prints the tables of docs/results/personal.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from fedsuper.config.reading import change_study, read_study
from fedsuper.errors import exit_code
from fedsuper.evaluation.run_files.names import cell
from fedsuper.studies.compare import Comparison, compare
from fedsuper.studies.personal.candidates import ROW, candidate_scores, candidates_markdown
from fedsuper.studies.personal.hospitals import TEST, write_hospitals

STUDY = Path(__file__).with_name("personal.yaml")
ROWS = ["fedavg", "local", "ft", "softpull", "softpull+weights=similar", "fedsm", "fedsm+lambda=auto", ROW]


def main(arguments: list[str] | None = None) -> int:
    """Print every row by site and seed, then every site's candidates."""
    parser = argparse.ArgumentParser(prog="fedsuper.studies.personal.by_seed", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--test", type=int, default=TEST, help="test images of every site")
    parser.add_argument("--methods", default=",".join(ROWS))
    parser.add_argument("--config", type=Path, default=STUDY)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the study")
    options = parser.parse_args(arguments)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    rows = options.methods.split(",")

    def tables() -> str:
        study = change_study(read_study(options.config), options.set)
        found = []
        for seed in seeds:
            root = root_of(options.out, seed)
            if not root.exists():
                write_hospitals(root, seed, test=options.test)
            found.append(compare(Comparison(study, root, rows, [seed], run_of(options.out, seed)))["methods"])
        parts = [rows_markdown(found)]
        if ROW in rows:
            runs = [(cell(run_of(options.out, seed), ROW, seed), root_of(options.out, seed)) for seed in seeds]
            parts.append(candidates_markdown([candidate_scores(run, root) for run, root in runs]))
        return "\n".join(parts)

    return exit_code(tables)


def rows_markdown(found: Sequence[Mapping[str, Any]]) -> str:
    """A line a row: Dice by site and over sites, means over the federations in `found`, then of each of them."""
    sites = list(next(iter(found[0].values()))["per_site"])
    lines = [["", *sites, "client average", "by seed"], ["---", *["---:"] * (len(sites) + 2)]]
    for row in found[0]:
        by_site = [fmean(one[row]["per_site"][site]["mean"] for one in found) for site in sites]
        by_seed = [one[row]["client_avg"] for one in found]
        each = " ".join(f"{value:.3f}" for value in by_seed)
        lines.append([row, *(f"{value:.3f}" for value in [*by_site, fmean(by_seed)]), each])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def root_of(out: Path, seed: int) -> Path:
    """The data of a seed."""
    return out / "data" / f"seed-{seed}"


def run_of(out: Path, seed: int) -> Path:
    """The comparison of a seed."""
    return out / f"seed-{seed}"


if __name__ == "__main__":
    sys.exit(main())
