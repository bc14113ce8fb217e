"""A study on NVFlare's simulator against its pure computation spread over the cores, with start-up and without.

The computation is the same study in this process, one site at a time, in processor seconds; divided by the cores it is
what an ideal machine would take. Six synthetic hospitals at 64 px, as in the demonstration.

A machine that is shared with others may need several times as long in one minute as in the next for the same work, and
it is never too fast. So both are run in turn, several times, and what counts is a run that nobody disturbed: the least
of what is no round (start-up, hand-over, end), and for every round after the first the least of those rounds.

What of the ratio is the exchange alone is shown by the same federation with hardly an image: the same nets travel, and
a round is longer than its computation spread over the cores by what messages, copies and waiting cost. And cores need
not be whole ones: pure computation side by side, measured beside them, says how long two take for the work of one.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuper.bench.two_workers import computing
from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.engines.in_process import run_local
from fedsuper.evaluation.run_files.names import ROUNDS as ROUND_TABLE
from fedsuper.federation.ledger.round_costs import RoundCost
from fedsuper.federation.progress import Progress

SITES, IMAGES, ROUNDS, TURNS = 6, 400, 15, 3
FEW, FEW_TURNS = 24, 2  # images of the federation that has next to nothing to compute
MOST_WITH, MOST_WITHOUT = 1.35, 1.15
STUDY: dict[str, Any] = {"method": "fedsm", "image_size": 64, "model": {"channels": [16, 32, 64, 128]}}


class Clock(Progress):
    """Notes the processor seconds at the end of each round."""

    def __init__(self) -> None:
        super().__init__("", None, io.StringIO())
        self.rounds: list[float] = []

    def round(self, number: int, summary: str, cost: RoundCost | None = None) -> None:
        self.rounds.append(time.process_time())


@dataclass(frozen=True)
class Spent:
    """Seconds of one run: of its rounds after the first, and of all the rest."""

    rounds: list[float]
    rest: float


def undisturbed(turns: Sequence[Spent]) -> tuple[float, float]:
    """Seconds of a whole run and of a round, from the least that their parts took."""
    a_round = min(seconds for turn in turns for seconds in turn.rounds)
    return min(turn.rest for turn in turns) + a_round * len(turns[0].rounds), a_round


def run(out: Path) -> dict[str, Any]:
    """The study here and on the simulator with a process for each site, in turn."""
    folder = Path(out) / "round"
    shutil.rmtree(folder, ignore_errors=True)
    write_retina(folder / "data", sites=SITES, images=IMAGES, size=64, seed=0)
    study: Study = parse_study(STUDY | {"rounds": ROUNDS})
    turns = [(_here(study, folder), _simulated(study, folder)) for _ in range(TURNS)]
    apart, together = (min(computing(side_by_side) for _ in range(TURNS)) for side_by_side in (False, True))
    cores = os.cpu_count() or 1
    exchange = _exchange(study, folder / "few", cores)
    shutil.rmtree(folder)
    computed, computed_round = undisturbed([here for here, _ in turns])
    whole, whole_round = undisturbed([simulated for _, simulated in turns])
    ratio, rounds = whole / computed * cores, whole_round / computed_round * cores
    return {
        "setting": f"FedSM, {SITES} sites, {IMAGES} images of 64 px, {ROUNDS} rounds, {cores} cores; least of {TURNS} "
                   "turns",
        "computation_seconds": computed,
        "computation_over_cores_seconds": computed / cores,
        "simulator_seconds": whole,
        "simulator_seconds_beside_rounds": min(turn.rest for _, turn in turns),
        "with_start_up": ratio,
        "rounds_alone": rounds,
        "round_seconds": whole_round,
        "exchange_seconds_of_a_round": exchange,
        "exchange_alone": exchange / computed_round * cores,
        "pure_computation_side_by_side_of_one_by_one": together / apart,
        "promises": {
            f"the simulator takes at most {MOST_WITH:g} of the computation spread over the cores": ratio <= MOST_WITH,
            f"its rounds alone at most {MOST_WITHOUT:g}": rounds <= MOST_WITHOUT,
        },
    }


def _exchange(study: Study, folder: Path, cores: int) -> float:
    """Seconds by which a round of the same nets with hardly an image is longer than its computation over the cores."""
    write_retina(folder / "data", sites=SITES, images=FEW, size=64, seed=0)
    turns = [(_here(study, folder), _simulated(study, folder)) for _ in range(FEW_TURNS)]
    _, computed = undisturbed([here for here, _ in turns])
    _, whole = undisturbed([simulated for _, simulated in turns])
    return whole - computed / cores


def _here(study: Study, folder: Path) -> Spent:
    """Processor seconds in this process."""
    clock = Clock()
    shutil.rmtree(folder / "here", ignore_errors=True)
    started = time.process_time()
    run_local(study, folder / "data", folder / "here", clock, threads=1)
    whole = time.process_time() - started
    rounds = [later - earlier for earlier, later in itertools.pairwise(clock.rounds)]
    return Spent(rounds, whole - sum(rounds))


def _simulated(study: Study, folder: Path) -> Spent:
    """Seconds of the clock on the simulator; those of rounds as the server counted them."""
    from fedsuper.engines.flare.launch.simulator import run_simulator

    shutil.rmtree(folder / "simulated", ignore_errors=True)
    began = time.monotonic()
    run_simulator(study, folder / "data", folder / "simulated", io.StringIO())
    whole = time.monotonic() - began
    with open(folder / "simulated" / ROUND_TABLE, encoding="utf-8", newline="") as file:
        seconds = {row["round"]: float(row["seconds"]) for row in csv.DictReader(file)}
    rounds = list(seconds.values())[1:]
    return Spent(rounds, whole - sum(rounds))
