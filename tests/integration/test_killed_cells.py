"""A comparison or a sweep killed in the middle: finished cells stay, its workers end, and the same call goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml

from fedsuper.cli import main

STUDY = {"rounds": 1, "image_size": 32, "model": {"name": "plain-unet", "channels": [4, 8]}}
LONG = 400  # local epochs: long enough to be killed in


EPOCHS = ["1", "2", str(LONG)]
COMPARED = ["fedavg", "fedprox", f"fedavg+local_epochs={LONG}"]
SWEPT = [f"fedavg+local_epochs={epochs}" for epochs in EPOCHS]


def compare_first(count: int) -> list[str]:
    return ["compare", "--methods", ",".join(COMPARED[:count])]


def sweep_first(count: int) -> list[str]:
    return ["sweep", "--methods", "fedavg", "--over", f"local_epochs={','.join(EPOCHS[:count])}"]


@pytest.mark.parametrize(
    ("command", "rows"), [(compare_first, COMPARED), (sweep_first, SWEPT)], ids=["compare", "sweep"]
)
def test_sigkill_loses_at_most_the_cells_under_way(command, rows: list[str], pair_root: Path, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(STUDY))
    out = tmp_path / "out"
    words = ["--data", str(pair_root), "--config", str(tmp_path / "study.yaml"), "--out", str(out)]
    whole = [sys.executable, "-m", "fedsuper.cli", *command(3), *words, "--workers", "2"]
    finished = [out / "runs" / row / "seed-0" / "supermodel" / "supermodel.json" for row in rows]
    with subprocess.Popen(whole, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
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
    assert main([*command(2), *words, "--workers", "1"]) == 0
    assert {path: path.stat().st_mtime_ns for path in finished[:2]} == before
    assert (out / "metrics.json").exists()
