"""A comparison killed in the middle: finished cells stay as they are, its workers end, and the same call goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import yaml

from fedsuper.cli import main

STUDY = {"rounds": 1, "image_size": 32, "model": {"name": "plain-unet", "channels": [4, 8]}}
ROWS = ["fedavg", "fedprox", "fedavg+local_epochs=400"]  # the last takes long enough to be killed in


def test_sigkill_loses_at_most_the_cells_under_way(pair_root: Path, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(STUDY))
    out = tmp_path / "out"
    words = ["compare", "--data", str(pair_root), "--config", str(tmp_path / "study.yaml"), "--out", str(out)]
    command = [sys.executable, "-m", "fedsuper.cli", *words, "--methods", ",".join(ROWS), "--workers", "2"]
    finished = [out / "runs" / row / "seed-0" / "supermodel" / "supermodel.json" for row in ROWS]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if finished[0].exists() and finished[1].exists():
                workers = psutil.Process(process.pid).children(recursive=True)
                process.kill()
                break
            assert "error" not in line.lower(), line
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert workers and not alive, "no worker outlives the command"
    assert not finished[2].exists()
    before = {path: path.stat().st_mtime_ns for path in finished[:2]}
    assert main([*words, "--methods", ",".join(ROWS[:2]), "--workers", "1"]) == 0
    assert {path: path.stat().st_mtime_ns for path in finished[:2]} == before
    assert (out / "metrics.json").exists()
