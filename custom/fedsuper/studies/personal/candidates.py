"""Every candidate of `personal: auto` on test images, beside the one taken: `python -m ...candidates RUN --data ROOT`.

RUN is a comparison with a row of FedSM's `personal: auto`, trained in process (`--engine local`): the candidates are
read from what the sites kept of the round in which they made them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fedsuper.config.reading import read_study
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.run_files.names import cell
from fedsuper.federation.checkpoints import load_latest
from fedsuper.federation.message_schema import RoundRequest
from fedsuper.federation.site_worker import SiteWorker
from fedsuper.methods.parts.own_choice import CANDIDATE, CANDIDATES, CHOOSING, CHOSEN, choices
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


def candidate_scores(run: Path, data: Path) -> Scores:
    """Dice on test images of every candidate of every site, and of its choice."""
    study = read_study(run / "study.yaml")
    server = load_latest(run / "state" / "server", study)
    if server is None or server.phase != CHOOSING:
        raise FedSuperError(f"{run}: no run in which sites chose; compare {ROW} with --engine local")
    chosen = choices(server)
    found: Scores = {}
    for site in server.sites:
        before = server.round - 1  # the round in which candidates were made was the last but one
        request = RoundRequest(study=study.to_json(), label=server.label(site), sites=server.sites, round=before,
                               phase=CHOOSING, accepted=before, task=server.task.to_json())
        worker = SiteWorker(site, data, run / "state" / "sites" / site)
        at = worker.site_round(request, {})
        states = [at.store.models.get(f"{CANDIDATE}/{name}") for name in CANDIDATES]
        taken, sent = chosen.get(site), server.models.get(f"{CHOSEN}/{site}")
        if taken is None or sent is None or any(state is None for state in states):
            raise FedSuperError(f"{run}: {site} kept no candidates or made no choice; compare {ROW} anew")
        test = worker.data.samples(study, "test")
        dice = [float(region_dice(at.segmentation(state), test, at.compute).mean()) for state in states]
        found[site] = [*dice, dice[taken]]
    return found


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
