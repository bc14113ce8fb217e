"""What a site knows of itself: environment, site file, devices, and where state goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from super_models import random_super_model

from fedsuper.config import Study
from fedsuper.config.reading import change_method, parse_study
from fedsuper.engines.flare import settings
from fedsuper.engines.flare.settings import Settings
from fedsuper.errors import FedSuperError
from fedsuper.federation.serving.held_models import identity_of
from fedsuper.inference.artifact import save_super_model


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = (settings.DATA, settings.STATE, settings.SERVER_STATE, settings.FILE)
    for name in (*paths, settings.DEVICE, settings.DEVICES):
        monkeypatch.delenv(name, raising=False)


def write(folder: Path, text: str) -> Path:
    path = folder / settings.SITE_FILE
    path.write_text(text)
    return path


def test_no_file_is_no_settings(tmp_path: Path) -> None:
    assert settings.read_settings(tmp_path) == Settings()


def test_relative_paths_count_from_the_file(tmp_path: Path) -> None:
    write(tmp_path, "data_root: data\nstate_folder: /abs\ndevice: cpu\n")
    assert settings.read_settings(tmp_path) == Settings(data_root=tmp_path / "data", state_folder="/abs", device="cpu")


@pytest.mark.parametrize(("text", "expected"), [
    ("dataroot: /x", "dataroot"),
    ("data_root: [1]", "data_root"),
    ("- a list", "fedsuper.yaml"),
    ("a: b: c", "not a YAML file"),
])
def test_a_faulty_file_is_one_line_that_names_it(tmp_path: Path, text: str, expected: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(FedSuperError) as problem:
        settings.read_settings(tmp_path)
    assert str(path) in str(problem.value) and expected in str(problem.value) and "\n" not in str(problem.value)


def test_a_named_file_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.FILE, str(tmp_path / "absent.yaml"))
    with pytest.raises(FedSuperError, match="absent.yaml"):
        settings.read_settings(tmp_path)


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Settings(data_root="/from/file", device="cuda:1")
    assert settings.data_root_of("a", known) == Path("/from/file")
    monkeypatch.setenv(settings.DATA, "/from/env")
    assert settings.data_root_of("a", known) == Path("/from/env")
    monkeypatch.setenv(settings.DEVICE, "cpu")
    assert settings.device_of("a", known) == "cpu"


def test_a_relative_data_root_counts_from_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVFlare moves to its workspace before a site reads the variable."""
    monkeypatch.setenv("PWD", "/home/user")
    monkeypatch.setenv(settings.DATA, "runs/data")
    monkeypatch.chdir(tmp_path)
    assert settings.data_root_of("a", Settings()) == Path("/home/user/runs/data")


def test_state_that_outlives_a_job_is_kept_apart_by_study(tiny_study: Study, tmp_path: Path) -> None:
    known = Settings(state_folder=tmp_path)
    run = Path("/run")
    here = settings.state_folder_of("a", known, tiny_study, run)
    assert here == tmp_path / settings.study_id(tiny_study) / "a"
    assert settings.server_state_folder(known, tiny_study, run) == here.parent / "server"
    assert settings.state_folder_of("a", known, tiny_study.with_seed(5), run) != here
    assert settings.state_folder_of("a", Settings(), tiny_study, run) == run / "state"


def test_a_study_that_may_resume_has_the_same_id(tiny_study: Study) -> None:
    longer = parse_study({**tiny_study.to_json(), "rounds": 50, "federation": {"round_timeout": 9}})
    assert settings.study_id(longer) == settings.study_id(tiny_study)
    assert settings.study_id(change_method(tiny_study, "fedavg")) != settings.study_id(tiny_study)


def test_gpus_are_dealt_out_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    dealt = settings.deal_devices("1,3", ["a", "b", "c"])
    assert json.loads(dealt[settings.DEVICES]) == {"a": "cuda:1", "b": "cuda:3", "c": "cuda:1"}
    monkeypatch.setenv(settings.DEVICES, dealt[settings.DEVICES])
    assert settings.device_of("b", Settings(device="cpu")) == "cuda:3"
    assert settings.deal_devices(None, ["a"]) == {}
    with pytest.raises(FedSuperError, match="0,1"):
        settings.deal_devices("first", ["a"])


def test_a_site_says_where_inference_reads_and_writes(tiny_root: Path, tmp_path: Path, monkeypatch) -> None:
    write(tmp_path, "inbox: in\noutbox: /abs/out\n")
    known = settings.read_settings(tmp_path)
    assert settings.inbox_of("a", known) == tmp_path / "in"
    assert settings.outbox_of("a", known, tmp_path / "run") == Path("/abs/out")
    assert settings.inbox_of("site-2", Settings(data_root=tiny_root)) == tiny_root / "site-2"
    assert settings.outbox_of("a", Settings(), tmp_path / "run") == tmp_path / "run" / "outbox"
    monkeypatch.setenv(settings.OUTBOX, str(tmp_path / "sites"))
    assert settings.outbox_of("a", known, tmp_path / "run") == tmp_path / "sites" / "a" / "outbox"


def test_a_server_finds_the_super_model_a_job_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(settings.SUPER_MODEL, raising=False)
    for number, place in enumerate(["kept/first", "state/fedsm-1/server/supermodel"]):
        save_super_model(random_super_model([f"h{number}"]), tmp_path / place)
    known = Settings(supermodels=tmp_path / "kept", state_folder=tmp_path / "state")
    for place in ("kept/first", "state/fedsm-1/server/supermodel"):
        assert settings.super_model_of(known, identity_of(tmp_path / place)) == tmp_path / place
    with pytest.raises(FedSuperError, match="does not hold the super model 0123"):
        settings.super_model_of(known, "0123")
    with pytest.raises(FedSuperError, match="names no super model"):
        settings.super_model_of(known, None)
    monkeypatch.setenv(settings.SUPER_MODEL, str(tmp_path / "kept" / "first"))
    assert settings.super_model_of(known, None) == tmp_path / "kept" / "first"


def test_states_of_earlier_trainings_are_found(tmp_path: Path) -> None:
    (tmp_path / "fedsm-1" / "a").mkdir(parents=True)
    (tmp_path / "fedsm-1" / "b").mkdir()
    assert settings.kept_states_of("a", Settings(state_folder=tmp_path)) == [tmp_path / "fedsm-1" / "a"]
