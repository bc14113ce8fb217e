"""Every candidate of `personal: auto` on test images, beside the one taken: `python -m ...candidates RUN --data ROOT`.

RUN is a comparison with a row of FedSM's `personal: auto`, trained in process (`--engine local`): the candidates are
read from what the sites kept of the round in which they made them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsuper.config.reading import read_study
from fedsuper.core.state import State
from fedsuper.core.validated.candidate_choice import Figures
from fedsuper.data.prepared.samples import Samples
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.run_files.names import cell
from fedsuper.federation.checkpoints import load_latest
from fedsuper.federation.message_schema import RoundRequest
from fedsuper.federation.site_worker import SiteWorker
from fedsuper.methods.parts.own_choice import CANDIDATE, CANDIDATES, CHOOSING, CHOSEN, choices, figures
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.train.loop import region_dice

ROW = "fedsm+personal=auto"
Scores = dict[str, list[float]]  # by site: Dice of every candidate, then of the one taken


def main(arguments: list[str] | None = None) -> int:
    """Print the table of every site, means over seeds."""
    parser = argparse.ArgumentParser(prog="fedsuper.studies.personal.candidates", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", default="0,1,2")
    options = parser.parse_args(arguments)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    try:
        found = [candidate_scores(cell(options.run, ROW, seed), options.data) for seed in seeds]
    except FedSuperError as problem:
        print(f"fedsuper: {problem}", file=sys.stderr)
        return 2
    print(candidates_markdown(found))
    return 0


@dataclass(frozen=True)
class Kept:
    """A site after a run: its candidates, what it told of them, the one it took, its round and its test images."""

    site: str
    states: list[State]
    told: Figures
    taken: int
    at: SiteRound
    test: Samples


def candidate_scores(run: Path, data: Path) -> Scores:
    """Dice on test images of every candidate of every site, and of its choice."""
    found: Scores = {}
    for kept in kept_candidates(run, data):
        dice = tested(kept)
        found[kept.site] = [*dice, dice[kept.taken]]
    return found


def tested(kept: Kept) -> list[float]:
    """Of every candidate, mean over regions."""
    return [float(region_dice(kept.at.segmentation(state), kept.test, kept.at.compute).mean())
            for state in kept.states]


def kept_candidates(run: Path, data: Path) -> Iterator[Kept]:
    """What every site of a run kept of the round in which it made its candidates, the last but one."""
    study = read_study(run / "study.yaml")
    server = load_latest(run / "state" / "server", study)
    if server is None or server.phase != CHOOSING:
        raise FedSuperError(f"{run}: no run in which sites chose; compare {ROW} with --engine local")
    told, chosen, before = figures(server), choices(server), server.round - 1
    for site in server.sites:
        request = RoundRequest(study=study.to_json(), label=server.label(site), sites=server.sites, round=before,
                               phase=CHOOSING, accepted=before, task=server.task.to_json())
        worker = SiteWorker(site, data, run / "state" / "sites" / site)
        at = worker.site_round(request, {})
        states = [state for name in CANDIDATES if (state := at.store.models.get(f"{CANDIDATE}/{name}"))]
        if len(states) < len(CANDIDATES) or site not in told or f"{CHOSEN}/{site}" not in server.models:
            raise FedSuperError(f"{run}: {site} kept no candidates or made no choice; compare {ROW} anew")
        yield Kept(site, states, told[site], chosen[site], at, worker.data.samples(study, "test"))


def candidates_markdown(found: Sequence[Scores]) -> str:
    """A line a site, means over the runs in `found`, and the taken one less the best; the last line is the mean."""
    names = [*CANDIDATES, "taken"]
    lines = [["site", *names, "taken - best"], ["---", *["---:"] * (len(names) + 1)]]
    rows = {site: [sum(run[site][at] for run in found) / len(found) for at in range(len(names))] for site in found[0]}
    rows["mean"] = [sum(row[at] for row in rows.values()) / len(rows) for at in range(len(names))]
    for site, row in rows.items():
        lines.append([site, *(f"{one:.3f}" for one in row), f"{row[-1] - max(row[:-1]):+.3f}"])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
