"""Job folders: thin, the same every time, and in step with the methods and with NVFlare."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from fedsuper.cli import main
from fedsuper.config import Study, parse_study
from fedsuper.engines.flare.job import write_all_jobs, write_job
from fedsuper.engines.messages import TASKS

JOBS = Path(__file__).parents[3] / "jobs"


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def config(job: Path, side: str) -> dict:
    return json.loads((job / "app" / "config" / f"config_fed_{side}.json").read_text())


def test_the_jobs_in_the_repository_are_in_step(tmp_path: Path) -> None:
    names = write_all_jobs(tmp_path)
    assert {"fedsm", "fedavg"} <= set(names)
    for name in names:
        assert files(JOBS / name) == files(tmp_path / name), f"run: python -m fedsuper.engines.flare.job {JOBS.name}"
    assert {path.name for path in JOBS.iterdir() if (path / "meta.json").exists()} >= set(names)


def test_a_job_holds_the_study_and_nothing_of_this_machine(tiny_study: Study, tmp_path: Path) -> None:
    study = parse_study({**tiny_study.to_json(), "federation": {"min_sites": 2}})
    write_job(study, tmp_path / "one")
    write_job(study, tmp_path / "two")
    written = files(tmp_path / "one")
    assert written == files(tmp_path / "two")
    assert not any(str(tmp_path) in text or "site-1" in text for text in written.values())
    assert json.loads(written["meta.json"])["min_clients"] == 2
    workflow = config(tmp_path / "one", "server")["workflows"][0]
    assert parse_study(workflow["args"]["study"]) == study
    assert workflow["args"]["resume"] is False
    assert [name for name in written if "custom" in name] == ["app/custom/README.md"]


def test_a_job_for_sites_with_an_allow_list_carries_no_custom_folder(tiny_study: Study, tmp_path: Path) -> None:
    write_job(tiny_study, tmp_path, custom=False, resume=True)
    assert not (tmp_path / "app" / "custom").exists()
    assert config(tmp_path, "server")["workflows"][0]["args"]["resume"] is True


def test_every_component_can_be_built_and_keeps_its_arguments(tiny_study: Study, tmp_path: Path) -> None:
    """NVFlare drops, without a word, arguments that are not stored under their own name."""
    write_job(tiny_study, tmp_path)
    server, client = config(tmp_path, "server"), config(tmp_path, "client")
    entries = [*server["workflows"], *server["components"], *client["components"], client["executors"][0]["executor"]]
    for entry in entries:
        module, _, name = entry["path"].rpartition(".")
        component = getattr(importlib.import_module(module), name)(**entry["args"])
        for argument, value in entry["args"].items():
            assert getattr(component, argument) == value
    assert client["executors"][0]["tasks"] == list(TASKS)


def test_the_command_writes_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "study.yaml"
    study.write_text("method: fedavg\nrounds: 3\n")
    assert main(["job", str(study), "--out", str(tmp_path / "job")]) == 0
    assert config(tmp_path / "job", "server")["workflows"][0]["args"]["study"] == {"method": "fedavg", "rounds": 3}
