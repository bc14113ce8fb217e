"""Ctrl-C in a real process: the last line says how to go on, and going on so gives the model of an unbroken run."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path

from fedsuper.cli import main

STUDY = """
method: fedavg
rounds: 30
image_size: 32
model: {name: plain-unet, channels: [4, 8], norm: batch}
"""


def weights(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "supermodel").glob("*.safetensors")}


def test_what_the_last_line_says_works(pair_root: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "study.yaml").write_text(STUDY, encoding="utf-8")
    words = ["run", "study.yaml", "--data", str(pair_root), "--engine", "local"]
    command = [sys.executable, "-m", "fedsuper.cli", *words, "--out", "my run"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=quiet, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("run: study.yaml"), "something is said before the slow imports"
        for line in process.stderr:
            if "round 2/30" in line:
                process.send_signal(signal.SIGINT)
                break
        last = process.stderr.read().strip().splitlines()[-1]
    assert process.returncode == 130
    told = last.partition("go on with: fedsuper ")[2]
    assert told.endswith("--resume")
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(told)) == main([*words, "--out", "unbroken"]) == 0
    assert weights(tmp_path / "my run") == weights(tmp_path / "unbroken") != {}
