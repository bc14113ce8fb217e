"""Before a simulator or a POC starts: names, numbers and paths that NVFlare could not take are one line each."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsuper.config import Study
from fedsuper.engines.flare import one_machine
from fedsuper.engines.flare.poc import _free_ports, _project, run_poc
from fedsuper.engines.flare.session import open_session
from fedsuper.engines.flare.simulator import run_simulator
from fedsuper.engines.site_data import POOLED_SITE
from fedsuper.errors import FedSuperError


@pytest.mark.parametrize("name", ["St. Mary", "a,b", "server", "a.b", "Zürich"])
def test_a_name_nvflare_cannot_hold_is_refused_at_once(name: str, tiny_study: Study, tmp_path: Path) -> None:
    (tmp_path / "root" / name / "images").mkdir(parents=True)
    for engine in (run_simulator, run_poc):
        with pytest.raises(FedSuperError, match="rename"):
            engine(tiny_study, tmp_path / "root", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_pooled_training_is_a_federation_of_one(tiny_study: Study, tiny_root: Path) -> None:
    assert one_machine.usable_sites(tiny_study, tiny_root) == ["site-1", "site-2", "site-3"]
    assert one_machine.usable_sites(tiny_study.with_method("centralized"), tiny_root) == [POOLED_SITE]


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


def test_an_interpreter_with_spaces_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/my env/bin/python")
    with pytest.raises(FedSuperError, match="spaces"):
        one_machine.without_spaces(tmp_path / "run", tmp_path)


def test_a_poc_project_has_every_site_and_two_ports() -> None:
    project = _project(["a", "b"])
    kinds = [(entry["name"], entry["type"]) for entry in project["participants"]]
    assert kinds == [("server", "server"), ("a", "client"), ("b", "client"), ("admin@fedsuper.org", "admin")]
    server = project["participants"][0]
    assert server["fed_learn_port"] != server["admin_port"]
    assert len(set(_free_ports(5))) == 5


def test_a_folder_that_is_no_admin_kit_is_told(tmp_path: Path) -> None:
    with pytest.raises(FedSuperError, match="start-up kit"):
        open_session(tmp_path)
