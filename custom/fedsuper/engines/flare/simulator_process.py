"""The process in which `run_simulator` runs NVFlare's simulator. Arguments: JOB WORKSPACE SITE,SITE,... THREADS."""

from __future__ import annotations

import os
import sys
import threading

from nvflare.private.fed.app.simulator.simulator_runner import SimulatorRunner

from fedsuper.engines.flare.processes import MARK, ProcessFamily


def main(job: str, workspace: str, sites: str, threads: str) -> int:
    """Run the job to its end; the result is the simulator's exit code."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    limit = sites.count(",") + 1
    runner = SimulatorRunner(job, workspace, sites, threads=int(threads), log_config="concise", max_clients=limit)
    return runner.run()


def _end_with_parent() -> None:
    """Standard input is a pipe from the parent: it ends when the parent does, even if that was killed."""
    while os.read(0, 1):
        continue
    ProcessFamily(os.environ[MARK]).end()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
