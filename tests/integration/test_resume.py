"""Killed in mid-study and resumed, with every task in a process of its own: the same bits as an unbroken run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from run_folders import weights

from fedsuper.config import Study
from fedsuper.engines.flare.launch.simulator import run_simulator

RUN = """
import json, sys
from pathlib import Path
from fedsuper.config.reading import parse_study
from fedsuper.engines.flare.launch.simulator import run_simulator
study, root, folder = sys.argv[1:]
run_simulator(parse_study(json.loads(study)), Path(root), Path(folder), sys.stderr, threads=1)
"""


@pytest.mark.timeout(1200)  # fourteen process starts, several seconds each on a busy machine
def test_one_thread_killed_after_a_round_and_resumed(
    local_run: Path, pair_root: Path, pair_study: Study, tmp_path: Path
) -> None:
    """With one thread NVFlare ends a site's process after each task, so only files can carry a site's state.

    SIGKILL hits the run when the first round's checkpoint is there; no process may outlive it.
    """
    folder = tmp_path / "run"
    checkpoint = folder / "state" / "server" / "round-00001.safetensors"
    command = [sys.executable, "-c", RUN, pair_study.model_dump_json(exclude={"knobs"}), str(pair_root), str(folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not checkpoint.exists():
            try:
                assert process.wait(0.1) is None, process.communicate()[1]
            except subprocess.TimeoutExpired:
                continue
        descendants = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    _, alive = psutil.wait_procs(descendants, timeout=60)
    assert len(descendants) > 2 and alive == []
    assert not (folder / "supermodel").exists()

    run_simulator(pair_study, pair_root, folder, threads=1, resume=True)
    assert weights(folder / "supermodel") == weights(local_run / "supermodel")
