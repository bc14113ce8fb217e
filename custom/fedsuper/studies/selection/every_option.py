"""Every selector and gate on federations of several kinds: `python -m ...every_option --out RUN retina:1,2 long:0,1,2`.

Prints the table of docs/results/selection.md: a column a federation, or with `--kinds` a column a kind, with the mean
over its federations of the difference to the site known, and the federation that fared worst.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from fedsuper.errors import FedSuperError, exit_code
from fedsuper.files import atomic_write_json
from fedsuper.studies.selection.federations import KINDS, trained
from fedsuper.studies.selection.scored_options import FLAGGED, KNOWN, NAMED, option_scores

Table = Mapping[tuple[str, int], Mapping[str, float]]  # by kind and seed: every row


def main(arguments: list[str] | None = None) -> int:
    """Train what is not there, score, print; `RUN/options.json` has every number."""
    parser = argparse.ArgumentParser(prog="fedsuper.studies.selection.every_option", description=__doc__)
    parser.add_argument("federations", nargs="+", metavar="KIND:SEED,SEED")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kinds", action="store_true", help="a column a kind, against the site known")
    options = parser.parse_args(arguments)

    def table() -> str:
        found: dict[tuple[str, int], dict[str, float]] = {}
        for kind, seed in asked(options.federations):
            found[kind, seed] = option_scores(trained(kind, seed, options.out))
        told = {f"{kind}-{seed}": rows for (kind, seed), rows in found.items()}
        atomic_write_json(options.out / "options.json", told)
        return by_kind(found) if options.kinds else by_federation(found)

    return exit_code(table)


def asked(words: Sequence[str]) -> list[tuple[str, int]]:
    """`long:0,1` is the kind `long` with seeds 0 and 1."""
    pairs = []
    for word in words:
        kind, _, seeds = word.partition(":")
        if kind not in KINDS or not all(seed.isdigit() for seed in seeds.split(",")):
            raise FedSuperError(f"'{word}': expected KIND:SEED,SEED with a kind of {', '.join(KINDS)}")
        pairs += [(kind, int(seed)) for seed in seeds.split(",")]
    return pairs


def by_federation(found: Table) -> str:
    """Client average Dice, a column a federation."""
    rows = list(next(iter(found.values())))
    lines = [["", *(f"{kind} {seed}" for kind, seed in found), "mean"], ["---", *["---:"] * (len(found) + 1)]]
    for row in rows:
        values = [each[row] for each in found.values()]
        lines.append([row, *(short(value) for value in [*values, fmean(values)])])
    return markdown(lines)


def by_kind(found: Table) -> str:
    """Dice less that of the row that is told the site: the mean over a kind's federations and the worst of them."""
    kinds = list(dict.fromkeys(kind for kind, _ in found))
    counts = {kind: sum(one == kind for one, _ in found) for kind in kinds}
    lines = [["", *(f"{kind} ({counts[kind]})" for kind in kinds), "mean of kinds", "worst"],
             ["---", *["---:"] * (len(kinds) + 2)]]
    for row in next(iter(found.values())):
        if row == KNOWN:
            continue
        share = row in (FLAGGED, *NAMED.values())
        values = {key: each[row] - (0 if share else each[KNOWN]) for key, each in found.items()}
        worst, sign = max if row == FLAGGED else min, "" if share else "+"
        by = [[value for (one, _), value in values.items() if one == kind] for kind in kinds]
        cells = [f"{short(fmean(each), sign)} / {short(worst(each), sign)}" for each in by]
        over = fmean(fmean(each) for each in by)
        lines.append([row, *cells, short(over, sign), short(worst(values.values()), sign)])
    return markdown(lines)


def short(value: float, sign: str = "") -> str:
    """Four digits, and no zero before the point."""
    text = f"{value:{sign}.4f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def markdown(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
