"""Do the papers' orderings hold on this federation? (`make compare`)

Each claim is one line of a paper's table: this row is above that one. It is held against a finished comparison's
`per_image.csv`. The difference is that of the client averages (mean over sites of the mean over images), every image
first averaged over seeds; its 95% interval draws whole cases with replacement within sites. A claim *holds* if the
interval lies above zero and every seed agrees, is *reversed* if it lies below zero and every seed agrees, and is
*open* otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsuper.errors import FedSuperError, exit_code
from fedsuper.evaluation.comparisons import Scores, compare_methods
from fedsuper.evaluation.run_files.tables import read_images
from fedsuper.evaluation.statistics import Key
from fedsuper.files import atomic_write_text

# FedSM Tables 3, 6 and 7, retina, client average; `local` is the mean of "Client k Local" on client k.
FEDSM = {
    "centralized": 0.8898,
    "local": 0.8767,
    "fedavg": 0.8710,
    "fedprox": 0.8434,
    "scaffold": 0.8141,
    "fedsm": 0.8914,
    "fedsm-extra": 0.8905,
    "fedsm+personal=ft": 0.8875,
    "fedsm+personal=apfl": 0.8842,
    "fedsm+personal=per-fedavg": 0.8737,
    "fedsm+personal=pfedme": 0.8818,
    "fedsm+lambda=0.1": 0.8808,
    "fedsm+lambda=0.3": 0.8859,
    "fedsm+lambda=0.5": 0.8895,
    "fedsm+lambda=0.9": 0.8882,
}
# IOP-FL Table I, retina, mean of disc and cup; its nets have BatchNorm.
BATCH = "+model.norm=batch"
IOP_FL = {
    f"local{BATCH}": 0.8380,
    f"fedavg{BATCH}": 0.8617,
    f"pfedme{BATCH}": 0.8667,
    f"fedrep{BATCH}": 0.8706,
    f"fedbn{BATCH}": 0.8695,
    f"iop-fl{BATCH}": 0.8861,
}


@dataclass(frozen=True)
class Claim:
    """One row above another, and by how much in the paper; None where the paper gives no number."""

    source: str
    better: str
    worse: str
    theirs: float | None = None


@dataclass(frozen=True)
class Finding:
    """A claim held against a comparison."""

    claim: Claim
    ours: float
    low: float
    high: float
    seeds_agreeing: int
    seeds: int

    @property
    def verdict(self) -> str:
        """`holds`, `reversed` or `open`; two rows with the same scores on every image are `equal`."""
        if self.low == self.high == 0:
            return "equal"
        if self.low > 0 and self.seeds_agreeing == self.seeds:
            return "holds"
        if self.high < 0 and self.seeds_agreeing == 0:
            return "reversed"
        return "open"


def _above(source: str, table: Mapping[str, float], better: str, others: Sequence[str]) -> list[Claim]:
    return [Claim(source, better, worse, table[better] - table[worse]) for worse in others]


PERSONAL = [row for row in FEDSM if "personal" in row]
LAMBDAS = [row for row in FEDSM if "lambda" in row]  # beside 0.7, the default
CLAIMS: list[Claim] = [
    *_above("FedSM Table 3", FEDSM, "fedsm", ["centralized", "local", "fedavg", "fedprox", "scaffold", "fedsm-extra"]),
    *_above("FedSM Table 3", FEDSM, "centralized", ["local", "fedavg"]),
    *_above("FedSM Table 3", FEDSM, "local", ["fedavg"]),
    *_above("FedSM Table 3", FEDSM, "fedavg", ["fedprox", "scaffold"]),
    Claim("FedSM section 3.1.1", "fedsm", "fedsm-ensemble"),
    Claim("FedSM section 3.1.1", "fedsm-extra", "fedsm-ensemble"),
    *_above("FedSM Table 6", FEDSM, "fedsm", PERSONAL),
    *_above("FedSM Table 6", FEDSM, "fedsm+personal=ft", [row for row in PERSONAL if row != "fedsm+personal=ft"]),
    *_above("FedSM Table 7", FEDSM, "fedsm", LAMBDAS),
    *_above("IOP-FL Table I", IOP_FL, f"iop-fl{BATCH}", [row for row in IOP_FL if not row.startswith("iop-fl")]),
    *_above("IOP-FL Table I", IOP_FL, f"fedavg{BATCH}", [f"local{BATCH}"]),
    *(
        claim
        for name in ("fedrep", "fedbn", "pfedme")
        for claim in _above("IOP-FL Table I", IOP_FL, name + BATCH, [f"fedavg{BATCH}"])
    ),
]
# FedSM's selector and gate as printed, where the default lets validation choose among these and the closed form.
TRAINED = "fedsm+selector.kind=trained+selector.gate=threshold"
# What `make compare` trains beside every method: Tables 6 and 7, Table I's norm, the selector trained in three ways.
FURTHER_ROWS = [
    *PERSONAL,
    *LAMBDAS,
    *IOP_FL,
    TRAINED,
    *(f"{TRAINED}+selector.optimizer={name}" for name in ("synced-moments", "local")),
]


def findings(run: Path, claims: Sequence[Claim] = CLAIMS) -> list[Finding]:
    """Every claim whose two rows the comparison in `run` holds, in the order of `claims`."""
    scores: dict[str, dict[int, dict[Key, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in read_images(run):
        scores[row.method][row.seed][row.site, row.case, row.image] = row.mean
    known = [claim for claim in claims if claim.better in scores and claim.worse in scores]
    if not known:
        raise FedSuperError(f"{run}: holds the rows of no claim; `make compare` trains them all")
    return [_hold(claim, scores[claim.better], scores[claim.worse]) for claim in known]


def orderings_markdown(found: Sequence[Finding]) -> str:
    """One table line per claim."""
    lines = ["| source | claim | in the paper | here | 95% interval | seeds | verdict |"]
    lines.append("|---|---|---:|---:|---|---|---|")
    for one in found:
        claim = one.claim
        theirs = "-" if claim.theirs is None else f"{claim.theirs:+.3f}"
        lines.append(
            f"| {claim.source} | {claim.better} > {claim.worse} | {theirs} | {one.ours:+.3f} "
            f"| {one.low:+.3f} to {one.high:+.3f} | {one.seeds_agreeing} of {one.seeds} | {one.verdict} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Print the table and write it as RUN/orderings.md; `--rows` prints what `fedsuper compare` should train."""
    parser = argparse.ArgumentParser(prog="fedsuper.studies.orderings", description="the papers' orderings, tested")
    parser.add_argument("run", type=Path, nargs="?", metavar="RUN", help="a finished comparison")
    parser.add_argument("--rows", action="store_true", help="only print the rows to compare, for --methods")
    options = parser.parse_args(arguments)
    if options.rows:
        print(",".join(["all", *FURTHER_ROWS]))
        return 0
    if options.run is None:
        parser.error("give the folder of a finished comparison, or --rows")
    return exit_code(lambda: write_orderings(options.run))


def write_orderings(run: Path) -> str:
    """Write RUN/orderings.md and return it."""
    table = orderings_markdown(findings(run))
    atomic_write_text(run / "orderings.md", table)
    return table


def _hold(claim: Claim, better: Scores, worse: Scores) -> Finding:
    """Only seeds that both rows have, and images that both have scored, count."""
    shared = better.keys() & worse.keys()
    found = compare_methods({claim.better: better, claim.worse: worse}, [claim.worse])
    if not found or not shared:
        raise FedSuperError(f"{claim.better} and {claim.worse} share no seed or no image; compare them in one run")
    overall, by_seed = found[0].overall, found[0].per_seed
    agreeing = sum(difference > 0 for difference in by_seed.values())
    return Finding(claim, overall.mean, overall.low, overall.high, agreeing, len(by_seed))


if __name__ == "__main__":
    sys.exit(main())
