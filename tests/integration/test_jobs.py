"""The job folders of the repository run as they stand, with NVFlare's own command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fedsuper.engines.flare import settings
from fedsuper.engines.flare.launch.processes import ProcessFamily

REPOSITORY = Path(__file__).parents[2]


def test_nvflare_simulator_runs_jobs_fedsm_from_the_repository(pair_root: Path, tmp_path: Path) -> None:
    """Until its first checkpoint: the whole study would take minutes."""
    workspace = tmp_path / "ws"
    options = ["-w", str(workspace), "-n", "2", "-t", "2"]
    command = [sys.executable, "-m", "nvflare.cli", "simulator", "jobs/fedsm", *options]
    family = ProcessFamily()
    environment = family.environment({settings.DATA: str(pair_root)})
    checkpoint = workspace / "server" / "simulate_job" / "state" / "round-00001.safetensors"
    with open(tmp_path / "log", "w") as log, subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
    ) as process:
        try:
            while not checkpoint.exists():
                try:
                    process.wait(0.1)
                except subprocess.TimeoutExpired:
                    continue
                raise AssertionError((tmp_path / "log").read_text()[-3000:])
        finally:
            family.end()
    for site in ("site-1", "site-2"):
        assert (workspace / site / "simulate_job" / "state" / "state-00001.safetensors").exists()
