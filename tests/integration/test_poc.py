"""A provisioned federation with real processes: the same study, the same bits, and nobody left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import yaml
from run_folders import weights

from fedsuper.config import Study
from fedsuper.engines.flare import settings
from fedsuper.inference.artefact import load_super_model


def processes_of(folder: Path) -> list[psutil.Process]:
    """Processes that were told to keep their state under `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(settings.STATE, "").startswith(str(folder)):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_two_sites_give_the_in_process_super_model(
    local_run: Path, pair_root: Path, pair_study: Study, tmp_path: Path
) -> None:
    """The command, in a process of its own, as a user starts it: NVFlare's admin session is one per process."""
    study = tmp_path / "study.yaml"
    study.write_text(yaml.safe_dump(pair_study.to_json()))
    run = tmp_path / "run"
    command = [sys.executable, "-m", "fedsuper.cli", "run", str(study), "--data", str(pair_root), "--out", str(run)]
    done = subprocess.run([*command, "--engine", "poc"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=240)
    assert done.returncode == 0, done.stderr
    assert load_super_model(run / "supermodel").sites == ["site-1", "site-2"]
    assert weights(run / "supermodel") == weights(local_run / "supermodel")
    assert "submitted as job" in done.stderr and "round 2/2  2/2 sites" in done.stderr
    assert "client avg" in done.stdout
    assert processes_of(tmp_path) == []
    assert list((run / "job").rglob("tb_events/site-1/events.*"))
