"""How far a run is, from what it leaves in its folder; a line for monitoring, and logs that do not grow."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
import yaml

from fedsuper.cli import main
from fedsuper.evaluation.run_files.names import ROUNDS
from fedsuper.evaluation.run_files.status import STALE, status_of
from fedsuper.federation.ledger.round_costs import RoundCost, add_round
from fedsuper.federation.ledger.traffic import Traffic
from fedsuper.files import cut_back, owned


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of which site-2 missed the second round."""
    folder = tmp_path / "runs" / "first"
    folder.mkdir(parents=True)
    (folder / "study.yaml").write_text(yaml.safe_dump({"method": "fedsm", "rounds": 5}))
    add_round(folder, 1, RoundCost(Traffic({"site-1": 10, "site-2": 20}, {"site-1": 30, "site-2": 40}), 1.0))
    add_round(folder, 2, RoundCost(Traffic({"site-1": 10, "site-2": 20}, {"site-1": 30}), 1.0))
    return folder


def test_a_run_at_work_a_broken_one_and_a_finished_one(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with owned(run, "a run"):
        assert main(["status", str(run), "--health"]) == 0
        assert "ok run=" in (line := capsys.readouterr().out) and "state=running round=2/5 sites=1/2" in line
        assert "bytes_down=60 bytes_up=100" in line and line.count("\n") == 1
        os.utime(run / ROUNDS, (0, time.time() - STALE - 1))
        assert main(["status", str(run), "--health"]) == 1, "too long without a round"
    assert status_of(run).state == "stopped" and not status_of(run).healthy
    (run / "supermodel").mkdir()
    (run / "supermodel" / "supermodel.json").write_text("{}")
    assert status_of(run).state == "done" and status_of(run).healthy


def test_a_folder_of_runs_for_a_reader_and_for_a_program(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(run.parent)]) == 0
    shown = capsys.readouterr().out
    assert "fedsm, stopped, round 2 of 5" in shown and "site-2  last seen in round 1, 0.0 MB down" in shown
    assert main(["status", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["runs"][0]
    assert told["sites"]["site-1"] == {"last_round": 2, "bytes_down": 20, "bytes_up": 60} and not told["healthy"]


def test_nothing_to_tell_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 2 and "--kit" in capsys.readouterr().err
    assert main(["status", str(tmp_path)]) == 2 and "holds no run" in capsys.readouterr().err


def test_a_log_is_cut_back_and_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "nvflare.log"
    assert not cut_back(log, 10)
    with open(log, "ab", buffering=0) as writer:
        writer.write(b"a" * 20)
        assert cut_back(log, 10) and not cut_back(log, 10)
        writer.write(b"b")
    assert log.read_bytes() == b"b" and (tmp_path / "nvflare.log.1").read_bytes() == b"a" * 20
