"""A provisioned federation with real processes, of which two die: the bits of an unbroken run, nobody is left.

A lead submits a job without code to machines that let nobody bring any: the job and the rights of production.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import yaml
from attended import unbroken
from run_folders import weights

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.engines.flare import settings
from fedsuper.inference.artifact import load_super_model
from fedsuper.inference.supermodel_manifest import read_manifest


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


def listening(folder: Path) -> set[str]:
    """The addresses on which the federation's processes listen."""
    found = set()
    for process in processes_of(folder):
        try:
            found |= {each.laddr.ip for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN}
        except psutil.Error:
            continue
    return found


def running(folder: Path, *words: str) -> psutil.Process:
    """The federation's process whose command line holds all of `words`."""
    return next(each for each in processes_of(folder) if all(word in " ".join(each.cmdline()) for word in words))


def wait_for_task(state: Path, seconds: float = 8.0) -> None:
    """Until the child of a site, which was stopped just now, has a task: the next one, or the one it was stopped in."""
    def asked() -> list[float]:
        return [path.stat().st_mtime for path in state.glob("asked-*/asked.safetensors")]

    before, deadline = asked(), time.monotonic() + seconds
    while asked() == before and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)


def test_two_sites_of_which_processes_die_give_the_in_process_super_model(
    pair_root: Path, pair_study: Study, tmp_path: Path
) -> None:
    """The command, in a process of its own, as a user starts it: NVFlare's admin session is one per process.

    After round 1 the child in which site-1 trains is killed in mid-task: a lost round. After round 3 the job process of
    site-2 is killed, and with it the job: the command submits it again, with five rounds to go.
    """
    longer = parse_study({**pair_study.to_json(), "rounds": 8})
    study = tmp_path / "study.yaml"
    study.write_text(yaml.safe_dump(longer.to_json()))
    run = tmp_path / "run"
    command = [sys.executable, "-m", "fedsuper.cli", "run", str(study), "--data", str(pair_root), "--out", str(run)]
    addresses: set[str] = set()
    with subprocess.Popen([*command, "--engine", "poc"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "round 1/8" in line:
                trainer = running(tmp_path, "site_process", '"site-1"')
                trainer.suspend()
                addresses = listening(tmp_path)
                wait_for_task(run / "state" / "sites" / "site-1")
                trainer.kill()
            elif "round 3/8" in line and "restarts left" not in "".join(lines):
                running(tmp_path, "worker_process", "site-2").kill()
        output = process.communicate(timeout=240)[0]
    shown = "".join(lines)
    assert process.returncode == 0, shown
    assert load_super_model(run / "supermodel").sites == ["site-1", "site-2"]
    missing = [entry["missing"] for entry in read_manifest(run / "supermodel")["history"]]
    assert sorted(missing) == [*[[]] * 8, ["site-1"]], "one round, the one in which the kill came"
    unbroken(longer, dict.fromkeys(["site-1", "site-2"], pair_root), missing, tmp_path / "unbroken")
    assert weights(run / "supermodel") == weights(tmp_path / "unbroken" / "supermodel")
    assert "site-1: left out of the round (its training process died (exit -9)" in shown
    assert "site-2: its job process died, and with it the job; starting again from the last complete round" in shown
    assert shown.count("submitted as job") == 2 and "round 8/8  2/2 sites" in shown
    assert "client avg" in output
    assert addresses == {"127.0.0.1"}
    assert processes_of(tmp_path) == []
    assert list((run / "job").rglob("tb_events/site-1/events.*"))
    meta = json.loads(next((run / "job").rglob("meta.json")).read_text())
    assert meta["submitter_role"] == "lead" and not meta.get("byoc")
