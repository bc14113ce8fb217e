"""A site's process that is killed in the simulator ends the run at once, with the site's name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import yaml

from fedsuper.config import Study


def worker_of(site: str, run: psutil.Process) -> psutil.Process | None:
    """The simulator's process for a site."""
    for process in run.children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if "--client" in command and command[command.index("--client") + 1] == site:
            return process
    return None


def test_the_run_ends_with_the_name_of_the_dead_site(pair_root: Path, pair_study: Study, tmp_path: Path) -> None:
    endless = {**pair_study.to_json(), "rounds": 100000}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(endless))
    command = [sys.executable, "-m", "fedsuper.cli", "run", str(tmp_path / "study.yaml"), "--data", str(pair_root)]
    with subprocess.Popen([*command, "--out", str(tmp_path / "run")], stderr=subprocess.PIPE, text=True) as run:
        try:
            assert run.stderr is not None
            for line in run.stderr:
                if ": round 1/" in line:
                    break
            worker = worker_of("site-2", psutil.Process(run.pid))
            assert worker is not None
            worker.kill()
            last = run.stderr.read().splitlines()[-1]
            run.wait(60)
        finally:
            run.kill()
    assert run.returncode == 2
    assert last.startswith("fedsuper: site-2: its process died") and "--resume" in last
