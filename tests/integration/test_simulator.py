"""The simulator computes what the in-process engine computes, shows its progress and keeps its metrics."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_folders import weights
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from fedsuper.config import Study
from fedsuper.engines.flare.launch.simulator import run_simulator
from fedsuper.errors import FedSuperError


def test_the_super_model_is_the_in_process_one_bit_for_bit(local_run: Path, simulator_run: tuple[Path, str]) -> None:
    folder, _ = simulator_run
    assert weights(folder / "supermodel") == weights(local_run / "supermodel")


def test_every_site_keeps_the_same_super_model(local_run: Path, simulator_run: tuple[Path, str]) -> None:
    folder, _ = simulator_run
    for site in ("site-1", "site-2"):
        assert weights(folder / "state" / "sites" / site / "supermodel") == weights(local_run / "supermodel")


def test_the_terminal_shows_rounds_sites_and_seconds_and_no_noise(simulator_run: tuple[Path, str]) -> None:
    folder, shown = simulator_run
    rounds = [line for line in shown.splitlines() if line.startswith("fedsm: round")]
    assert rounds[0].startswith("fedsm: round 1/2  2/2 sites")
    assert len(rounds) == 2 and rounds[1].endswith("  0 s left")
    assert all(line.startswith("fedsm: ") for line in shown.splitlines())
    assert "Sending task" in (folder / "nvflare.log").read_text()


def test_metrics_of_every_round_reach_the_server_as_tensorboard_events(simulator_run: tuple[Path, str]) -> None:
    folder, _ = simulator_run
    for site in ("site-1", "site-2"):
        seen = set()
        for path in (folder / "nvflare" / "server" / "simulate_job" / "tb_events" / site).glob("events.*"):
            for event in EventFileLoader(str(path)).Load():
                seen |= {(value.tag, event.step) for value in event.summary.value}
        assert {("val/global", 1), ("val/global", 2), ("loss/global", 2), ("val/personal", 2)} <= seen


def test_a_site_that_cannot_take_part_ends_the_run_with_its_reason(
    pair_root: Path, pair_study: Study, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for entry in pair_root.iterdir():
        (root / entry.name).symlink_to(entry)
    (root / "site-2").unlink()
    (root / "site-2" / "images").mkdir(parents=True)
    with pytest.raises(FedSuperError) as problem:
        run_simulator(pair_study, root, tmp_path / "run")
    assert "site-2" in str(problem.value) and "labels" in str(problem.value) and "\n" not in str(problem.value)
