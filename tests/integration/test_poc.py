"""A provisioned federation with real processes: the same study, the same bits, and nobody left behind."""

from __future__ import annotations

import io
import time
from pathlib import Path

import psutil
from run_folders import weights

from fedsuper.config import Study
from fedsuper.engines.flare import settings
from fedsuper.engines.flare.poc import run_poc


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
    shown = io.StringIO()
    started = time.monotonic()
    super_model = run_poc(pair_study, pair_root, tmp_path / "run", shown)
    assert time.monotonic() - started < 240
    assert super_model.sites == ["site-1", "site-2"]
    assert weights(tmp_path / "run" / "supermodel") == weights(local_run / "supermodel")
    assert "submitted as job" in shown.getvalue() and "round 2/2  2/2 sites" in shown.getvalue()
    assert processes_of(tmp_path) == []
    assert list((tmp_path / "run" / "job").rglob("tb_events/site-1/events.*"))
