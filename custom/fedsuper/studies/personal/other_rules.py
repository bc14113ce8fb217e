"""What other rules would have taken: `python -m ...other_rules RUN --seeds 100,101`, RUN as `by_seed` left it.

For choosing a rule, on federations that no result is reported of: test Dice of the models that each rule takes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

from fedsuper.core.validated.candidate_choice import Figures, choose, common_choice
from fedsuper.errors import exit_code
from fedsuper.evaluation.run_files.names import cell
from fedsuper.methods.parts.own_choice import CANDIDATES
from fedsuper.studies.personal.by_seed import root_of, run_of
from fedsuper.studies.personal.candidates import ROW, kept_candidates, tested

Seen = list[tuple[Figures, list[float]]]  # by site: what validation says of the candidates, and their test Dice
Rule = Callable[[Sequence[Figures]], Sequence[int]]


def _always(candidate: int) -> Rule:
    return lambda told: [candidate] * len(told)


RULES: dict[str, Rule] = {
    **{f"always {name}": _always(at) for at, name in enumerate(CANDIDATES)},
    "best on own images": lambda told: [max(range(len(one.mean)), key=lambda at: one.mean[at]) for one in told],
    "two errors on own images": lambda told: [choose([one]).taken[0] for one in told],
    "all sites together, one error": lambda told: [common_choice(told, tie=1.0)[0]] * len(told),
    "all sites together": lambda told: choose(told).taken,
}


def main(arguments: list[str] | None = None) -> int:
    """Print a line a rule: Dice, and how far below each site's best candidate, means over seeds."""
    parser = argparse.ArgumentParser(prog="fedsuper.studies.personal.other_rules", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seeds", required=True)
    options = parser.parse_args(arguments)

    def table() -> str:
        seeds = [int(seed) for seed in options.seeds.split(",")]
        return rules_markdown([_seen(cell(run_of(options.run, seed), ROW, seed), root_of(options.run, seed))
                               for seed in seeds])

    return exit_code(table)


def rules_markdown(found: Sequence[Seen]) -> str:
    """A line a rule, over the federations in `found`; the shortfall is that of the site where it is largest."""
    lines = ["| rule | Dice | most below a site's best candidate |", "| --- | ---: | ---: |"]
    sites = range(len(found[0]))
    best = [max(fmean(seen[at][1][one] for seen in found) for one in range(len(CANDIDATES))) for at in sites]
    for name, rule in RULES.items():
        taken = [[dice[one] for (_, dice), one in zip(seen, rule([told for told, _ in seen]), strict=True)]
                 for seen in found]
        short = [fmean(one[at] for one in taken) - best[at] for at in sites]
        lines.append(f"| {name} | {fmean(fmean(one) for one in taken):.4f} | {min(short):+.4f} |")
    return "\n".join(lines) + "\n"


def _seen(run: Path, data: Path) -> Seen:
    return [(kept.told, tested(kept)) for kept in kept_candidates(run, data)]


if __name__ == "__main__":
    sys.exit(main())
