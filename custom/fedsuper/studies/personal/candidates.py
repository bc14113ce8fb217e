"""Every candidate of `personal: auto` on test images, beside the one taken: `python -m ...candidates RUN --data ROOT`.

RUN is a comparison with a row of FedSM's `personal: auto`, trained in process (`--engine local`). The fine-tuned model
of a site that took another one is not kept: it is made again from what the site kept, to the same bits.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fedsuper.config.reading import read_study
from fedsuper.core.state import State
from fedsuper.core.supermodel import GLOBAL
from fedsuper.errors import FedSuperError
from fedsuper.evaluation.run_files.names import cell
from fedsuper.federation.checkpoints import load_latest
from fedsuper.federation.message_schema import RoundRequest
from fedsuper.federation.site_worker import SiteWorker
from fedsuper.methods.fedsm import FedSM
from fedsuper.methods.parts.own_choice import CANDIDATES, CHOICE, CHOOSING, CHOSEN, Choosing
from fedsuper.methods.protocol.role import PERSONAL
from fedsuper.train.checkpoint import digest
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
    """Dice on test images of the global, the personalized and the fine-tuned model of every site, and of its choice."""
    study = read_study(run / "study.yaml")
    server = load_latest(run / "state" / "server", study)
    if server is None or server.phase != CHOOSING:
        raise FedSuperError(f"{run}: no run in which sites chose; compare {ROW} with --engine local")
    method = FedSM(study)
    found: Scores = {}
    for site in server.sites:
        sent = {GLOBAL: server.deployed(GLOBAL), PERSONAL: server.deployed(f"{PERSONAL}/{site}")}
        received = {name: state for name, state in sent.items() if state is not None}
        before = server.round - 1
        request = RoundRequest(study=study.to_json(), label=server.label(site), sites=server.sites, round=before,
                               phase=CHOOSING, accepted=before, task=server.task.to_json())
        worker = SiteWorker(site, data, run / "state" / "sites" / site)
        at = worker.site_round(request, received)
        states: Sequence[State] = Choosing(study, method.knobs.fine_tune).candidates_of(at)
        taken = int(server.models[f"{CHOICE}/{site}"]["taken"])
        if digest(states[taken]) != digest(server.models[f"{CHOSEN}/{site}"]):
            raise FedSuperError(f"{run}: {site}'s choice cannot be made again from its files; score it on the machine "
                                "that trained it")
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
