"""A study on NVFlare's simulator against its pure computation spread over the cores, with start-up and without.

The computation is the same study in this process, one site at a time, in processor seconds; divided by the cores it is
what an ideal machine would take. Six synthetic hospitals at 64 px, as in the demonstration.
"""

from __future__ import annotations

import io
import os
import shutil
import time
from pathlib import Path
from typing import Any

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.engines.in_process import run_local
from fedsuper.federation.ledger.round_costs import RoundCost
from fedsuper.federation.progress import Progress

SITES, IMAGES, ROUNDS = 6, 400, 15
MOST_WITH, MOST_WITHOUT = 1.35, 1.15
STUDY: dict[str, Any] = {"method": "fedsm", "image_size": 64, "model": {"channels": [16, 32, 64, 128]}}


class Clock(Progress):
    """Notes the processor seconds at the end of each round."""

    def __init__(self) -> None:
        super().__init__("", None, io.StringIO())
        self.rounds: list[float] = []

    def round(self, number: int, summary: str, cost: RoundCost | None = None) -> None:
        self.rounds.append(time.process_time())


class Watch(io.StringIO):
    """A stream that notes when the line of a round came."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[float] = []

    def write(self, text: str) -> int:
        if ": round " in text:
            self.rounds.append(time.monotonic())
        return super().write(text)


def run(out: Path) -> dict[str, Any]:
    """The study twice: here, and on the simulator with a process for each site."""
    from fedsuper.engines.flare.launch.simulator import run_simulator

    folder = Path(out) / "round"
    shutil.rmtree(folder, ignore_errors=True)
    write_retina(folder / "data", sites=SITES, images=IMAGES, size=64, seed=0)
    study: Study = parse_study(STUDY | {"rounds": ROUNDS})
    clock, watch, cores = Clock(), Watch(), os.cpu_count() or 1
    started = time.process_time()
    run_local(study, folder / "data", folder / "here", clock, threads=1)
    computed = time.process_time() - started
    began = time.monotonic()
    run_simulator(study, folder / "data", folder / "simulated", watch)
    whole = time.monotonic() - began
    shutil.rmtree(folder)
    rounds = (watch.rounds[-1] - watch.rounds[0]) / (clock.rounds[-1] - clock.rounds[0]) * cores
    ratio = whole / computed * cores
    return {
        "setting": f"FedSM, {SITES} sites, {IMAGES} images of 64 px, {ROUNDS} rounds, {cores} cores",
        "computation_seconds": computed,
        "computation_over_cores_seconds": computed / cores,
        "simulator_seconds": whole,
        "with_start_up": ratio,
        "rounds_alone": rounds,
        "promises": {
            f"the simulator takes at most {MOST_WITH:g} of the computation spread over the cores": ratio <= MOST_WITH,
            f"its rounds alone at most {MOST_WITHOUT:g}": rounds <= MOST_WITHOUT,
        },
    }
