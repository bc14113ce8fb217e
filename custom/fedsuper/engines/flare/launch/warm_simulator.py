"""NVFlare's simulator as a process of ours: `python -m fedsuper.engines.flare.launch.warm_simulator JOB -w ... -c ...`.

The same simulator; what differs costs or saves time only. Sites are forked from a warm process, which shares its
imports with the server's, and whoever waits looks again soon: NVFlare's simulator sleeps a second before it reaches for
a site, and half a second where a site finds no task.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from nvflare.fuel.f3.mpm import MainProcessMonitor
from nvflare.private.fed.app.simulator import simulator_runner, simulator_worker
from nvflare.private.fed.app.simulator.simulator import define_simulator_parser, run_simulator

from fedsuper.engines.flare import controller, executor, inference_controller, inference_executor
from fedsuper.engines.flare.launch.nursery import Birth, Nursery

WORKER = simulator_worker.__name__
STARTING, POLLING = 0.05, 0.2  # seconds: the longest nap where a process starts, and where a site asks for work
WARM = (controller, executor, inference_controller, inference_executor)  # imported here, shared by every fork


def site(arguments: Sequence[str]) -> None:
    """What NVFlare's worker does when it is started as a program."""
    sys.argv = [WORKER, *arguments]
    parsed = simulator_worker.parse_arguments()
    with contextlib.suppress(OSError):  # Linux: `top` shows the site
        Path("/proc/self/comm").write_text(parsed.client, encoding="utf-8")
    MainProcessMonitor.run(main_func=simulator_worker.main, run_dir=parsed.workspace, args=parsed)


def start_warm(nursery: Nursery) -> None:
    """Let the simulator's module, and only it, get its sites from the nursery."""

    def popen(command: Sequence[str], *, env: Mapping[str, str], **options: Any) -> Birth | subprocess.Popen[bytes]:
        if list(command[1:3]) == ["-m", WORKER]:
            return nursery.born(command[3:], env)
        return subprocess.Popen(command, env=env, **options)

    simulator_runner.subprocess = SimpleNamespace(Popen=popen, TimeoutExpired=subprocess.TimeoutExpired)


def nap_shorter(module: ModuleType, longest: float) -> None:
    """Let one module of NVFlare sleep no longer than this at a time; it looks at a condition after every nap."""
    module.time = SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(min(seconds, longest)))  # type: ignore[attr-defined]


def main() -> int:
    """The simulator's own command line."""
    parser = argparse.ArgumentParser()
    define_simulator_parser(parser)
    nap_shorter(simulator_worker, POLLING)
    start_warm(Nursery(site))
    nap_shorter(simulator_runner, STARTING)
    return int(run_simulator(parser.parse_args()) or 0)


if __name__ == "__main__":
    sys.exit(main())
