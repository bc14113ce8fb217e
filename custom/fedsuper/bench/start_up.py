"""What starting costs: `fedsuper --help`, and a simulated site until it can train.

A site used to be a new interpreter that imported NVFlare, torch with its compiler, and MONAI; that is measured beside
it, in the same run. Now one process imports what is needed and is forked for every site.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

SITES, REPEATS = 6, 3
MOST_HELP_SECONDS, MOST_SHARE = 0.2, 1 / 3
# What a site does before its first batch: the executor, a study, a net and its optimizer.
READY = """
import time
from fedsuper.config.reading import parse_study
from fedsuper.engines.flare.executor import TrainingExecutor, declared_models
from fedsuper.models.build import build_segmentation
from fedsuper.train.learner import make_optimizer

def ready():
    study = parse_study({"method": "fedsm"})
    TrainingExecutor(study.method, declared_models(study))
    make_optimizer(list(build_segmentation(study.model, 3, 2).parameters()), study.optimizer)
    return time.process_time()
"""
COLD = f"""
import torch._dynamo, monai.networks.nets
{READY}
ready()
"""
WARM = f"""
import json, sys
from fedsuper.engines.flare.launch import warm_simulator
from fedsuper.engines.flare.launch.births.nursery import Nursery
from pathlib import Path
{READY}

def life(arguments):
    Path(arguments[0]).write_text(str(ready()))

shared, folder = time.process_time(), Path(sys.argv[1])
nursery = Nursery(life)
for number in range({SITES}):
    nursery.born([str(folder / str(number))], {{}}).wait(60)
print(json.dumps([shared, [float((folder / str(number)).read_text()) for number in range({SITES})]]))
"""


def run(out: Path) -> dict[str, Any]:
    """Processor seconds, so that other programs matter little."""
    folder = Path(out) / "start-up"
    folder.mkdir(parents=True, exist_ok=True)
    bare = median(_seconds(["-c", ""]) for _ in range(REPEATS))
    shown = median(_seconds(["-m", "fedsuper.cli", "--help"]) for _ in range(REPEATS + 2))
    cold = median(_seconds(["-c", COLD]) for _ in range(REPEATS))
    found = [json.loads(_run(["-c", WARM, str(folder)])) for _ in range(REPEATS)]
    shared = median(once for once, _ in found)
    own = median(median(each) for _, each in found)
    site = shared / SITES + own
    return {
        "setting": f"processor seconds; {SITES} sites",
        "python_alone_seconds": bare,
        "help_seconds": shown,
        "site_in_a_new_interpreter_seconds": cold,
        "imports_shared_by_all_sites_seconds": shared,
        "site_itself_seconds": own,
        "site_with_its_share_seconds": site,
        "over_a_new_interpreter": site / cold,
        "promises": {
            f"--help in less than {MOST_HELP_SECONDS:g} s": shown < MOST_HELP_SECONDS,
            "a site is ready in a third of the time of a new interpreter": site <= MOST_SHARE * cold,
        },
    }


def _run(arguments: list[str]) -> str:
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True, env=os.environ)
    return done.stdout


def _seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    _run(arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used or time.monotonic() - started
