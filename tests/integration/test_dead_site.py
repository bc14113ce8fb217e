"""A site's process is killed in the simulator: the run names the site, starts again by itself and ends the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import yaml
from run_folders import weights
from site_processes import worker_of

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.engines.in_process import run_local
from fedsuper.federation.progress import Silent
from fedsuper.inference.artifact import save_super_model


def test_the_run_goes_on_after_the_death_of_a_site(pair_root: Path, pair_study: Study, tmp_path: Path) -> None:
    study = {**pair_study.to_json(), "rounds": 4}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    command = [sys.executable, "-m", "fedsuper.cli", "run", str(tmp_path / "study.yaml"), "--data", str(pair_root)]
    with subprocess.Popen([*command, "--out", str(tmp_path / "run")], stderr=subprocess.PIPE, text=True) as run:
        try:
            assert run.stderr is not None
            shown = ""
            for line in run.stderr:
                shown += line
                if ": round 1/" in line and "starting again" not in shown:
                    worker = worker_of("site-2", psutil.Process(run.pid))
                    assert worker is not None
                    worker.kill()
            run.wait(60)
        finally:
            run.kill()
    assert run.returncode == 0, shown
    assert "site-2: its process died (often for lack of memory); starting again" in shown
    assert "restarts left: 2" in shown
    save_super_model(run_local(parse_study(study), pair_root, tmp_path / "local", Silent()), tmp_path / "unbroken")
    assert weights(tmp_path / "run" / "supermodel") == weights(tmp_path / "unbroken") != {}
