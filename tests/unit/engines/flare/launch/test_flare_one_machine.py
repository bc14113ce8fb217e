"""Before a simulator or a POC starts: names, numbers and paths that NVFlare could not take are one line each."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsuper.config import Study
from fedsuper.config.reading import change_method
from fedsuper.engines.flare.launch import one_machine
from fedsuper.engines.flare.launch.link import open_session
from fedsuper.engines.flare.launch.poc import _free_ports, _project, run_poc
from fedsuper.engines.flare.launch.simulator import run_simulator
from fedsuper.errors import FedSuperError
from fedsuper.federation.site_data import POOLED_SITE


@pytest.mark.parametrize("name", ["St. Mary", "a,b", "server", "a.b", "Zürich"])
def test_a_name_nvflare_cannot_hold_is_refused_at_once(name: str, tiny_study: Study, tmp_path: Path) -> None:
    (tmp_path / "root" / name / "images").mkdir(parents=True)
    for engine in (run_simulator, run_poc):
        with pytest.raises(FedSuperError, match="rename"):
            engine(tiny_study, tmp_path / "root", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_pooled_training_is_a_federation_of_one(tiny_study: Study, tiny_root: Path) -> None:
    many = one_machine.for_study(tiny_study, tiny_root, tiny_root, None)
    one = one_machine.for_study(change_method(tiny_study, "centralized"), tiny_root, tiny_root, None)
    assert many.sites == ["site-1", "site-2", "site-3"] and one.sites == [POOLED_SITE]


def test_threads_that_make_no_sense(tiny_study: Study, tiny_root: Path, tmp_path: Path) -> None:
    with pytest.raises(FedSuperError, match="--threads 0"):
        run_simulator(tiny_study, tiny_root, tmp_path, threads=0)
    with pytest.raises(FedSuperError, match="--threads"):
        run_poc(tiny_study, tiny_root, tmp_path, threads=2)


def test_a_folder_with_spaces_is_reached_without_them(tmp_path: Path) -> None:
    folder = tmp_path / "my runs" / "first one"
    (tmp_path / "tmp").mkdir()
    link = one_machine.without_spaces(folder, tmp_path / "tmp")
    assert " " not in str(link) and link.resolve() == folder.resolve() and folder.is_dir()


def test_what_is_handed_over_lies_in_memory_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(disk))
    assert one_machine.folder_in_memory(memory).parent == memory
    assert one_machine.folder_in_memory(tmp_path / "none").parent == disk
    monkeypatch.setattr(one_machine, "ROOM", 10**30)
    assert one_machine.folder_in_memory(memory).parent == disk


def test_an_interpreter_with_spaces_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/my env/bin/python")
    with pytest.raises(FedSuperError, match="spaces"):
        one_machine.without_spaces(tmp_path / "run", tmp_path)


def test_a_poc_is_for_this_machine_alone_and_has_a_lead_who_submits() -> None:
    project = _project(["a", "b"])
    kinds = [(entry["name"], entry["type"]) for entry in project["participants"]]
    assert kinds[:3] == [("localhost", "server"), ("a", "client"), ("b", "client")]
    assert {entry["name"]: entry["role"] for entry in project["participants"] if entry["type"] == "admin"} == {
        "admin@fedsuper.org": "project_admin", "lead@fedsuper.org": "lead"}
    server = project["participants"][0]
    assert server["fed_learn_port"] != server["admin_port"]
    assert len(set(_free_ports(5))) == 5


def test_a_folder_that_is_no_admin_kit_is_told(tmp_path: Path) -> None:
    with pytest.raises(FedSuperError, match="start-up kit"):
        open_session(tmp_path)
