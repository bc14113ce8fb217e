"""Recipes and job folders: thin, the same every time, and in step with the methods and with NVFlare."""

from __future__ import annotations

import importlib
import importlib.util
import json
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest
from nvflare.recipe import PocEnv, ProdEnv, SimEnv

from fedsuper.cli import main
from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.engines.flare.executor import declared_models
from fedsuper.engines.flare.inference_recipe import InferenceRecipe
from fedsuper.engines.flare.job import layout, may_change_messages, write_job
from fedsuper.engines.flare.recipe import FedSuperRecipe, spelled_out
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import TASKS
from fedsuper.methods import METHODS, method_class

JOBS = Path(__file__).parents[4] / "jobs"
FEDERATED = [name for name in METHODS if not method_class(name).pooled]


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def config(job: Path, side: str) -> dict[str, Any]:
    return json.loads((job / "app" / "config" / f"config_fed_{side}.json").read_text())


def entries(job: Path) -> list[dict[str, Any]]:
    """Every component a job names."""
    server, client = config(job, "server"), config(job, "client")
    executors = [entry["executor"] for entry in client["executors"]]
    return [*server["workflows"], *server["components"], *client["components"], *executors]


@pytest.fixture(scope="module")
def job_script() -> ModuleType:
    """jobs/job.py."""
    spec = importlib.util.spec_from_file_location("fedsuper_job_script", JOBS / "job.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_jobs_in_the_repository_are_in_step(job_script: ModuleType, tmp_path: Path) -> None:
    job_script.refresh(tmp_path)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"fedsm", "iop-fl", "fedavg", "inference-select", "inference-route", "evaluate"}
    for name in written:
        assert files(JOBS / name) == files(tmp_path / name), "run: python jobs/job.py --refresh"
    assert {path.name for path in JOBS.iterdir() if (path / "meta.json").exists()} == written


def test_who_opens_jobs_fedsm_sees_fedsm() -> None:
    study = config(JOBS / "fedsm", "server")["workflows"][0]["args"]["study"]
    assert study["fedsm"].items() >= {"lambda": 0.7, "personal": "softpull", "gamma": "auto"}.items()
    assert study["selector"]["net"] and study["model"]["channels"]
    models = config(JOBS / "fedsm", "client")["executors"][0]["executor"]["args"]["models"]
    assert list(models) == ["global", "personal", "selector"]
    assert json.loads((JOBS / "fedsm" / "meta.json").read_text())["resource_spec"] == {"@default": {"num_of_gpus": 0}}


@pytest.mark.parametrize("method", FEDERATED)
def test_every_method_is_spelled_out_and_means_the_same(method: str) -> None:
    study = parse_study({"method": method, "rounds": 3})
    told = spelled_out(study)
    assert parse_study(told) == study
    knobs = method_class(method).Knobs.model_fields
    assert set(told.get(method, {})) == {field.alias or name for name, field in knobs.items()}


@pytest.mark.parametrize(("device", "gpus"), [("auto", 0), ("cpu", 0), ("cuda", 1), ("cuda:1", 1)])
def test_a_study_that_asks_for_cuda_needs_a_gpu_at_every_site(device: str, gpus: int, tmp_path: Path) -> None:
    write_job(parse_study({"method": "fedavg", "compute": {"device": device}}), tmp_path)
    assert json.loads((tmp_path / "meta.json").read_text())["resource_spec"]["@default"]["num_of_gpus"] == gpus


def test_a_job_holds_the_study_and_nothing_of_this_machine(tiny_study: Study, tmp_path: Path) -> None:
    study = parse_study({**tiny_study.to_json(), "federation": {"min_sites": 2}})
    write_job(study, tmp_path / "one")
    write_job(study, tmp_path / "two")
    written = files(tmp_path / "one")
    assert written == files(tmp_path / "two")
    assert not any(str(tmp_path) in text or "site-1" in text for text in written.values())
    assert json.loads(written["meta.json"])["min_clients"] == 2
    workflow = config(tmp_path / "one", "server")["workflows"][0]
    assert parse_study(workflow["args"]["study"]) == study and "resume" not in workflow["args"]
    assert [name for name in written if "custom" in name] == ["app/custom/README.md"]


def test_a_job_for_sites_with_an_allow_list_carries_no_custom_folder(tiny_study: Study, tmp_path: Path) -> None:
    write_job(tiny_study, tmp_path, custom=False, resume=True)
    assert not (tmp_path / "app" / "custom").exists()
    assert config(tmp_path, "server")["workflows"][0]["args"]["resume"] is True


def test_every_component_can_be_built_and_keeps_its_arguments(tiny_study: Study, tmp_path: Path) -> None:
    """NVFlare drops, without a word, arguments that are not stored under their own name."""
    write_job(tiny_study, tmp_path)
    for entry in entries(tmp_path):
        module, _, name = entry["path"].rpartition(".")
        component = getattr(importlib.import_module(module), name)(**entry["args"])
        for argument, value in entry["args"].items():
            assert getattr(component, argument) == value
    assert config(tmp_path, "client")["executors"][0]["tasks"] == list(TASKS)


@pytest.mark.parametrize("job", ["inference-select", "inference-route", "evaluate"])
def test_jobs_that_use_a_super_model_are_apart_from_training(job: str) -> None:
    """Their own controller and executor, which say what they do; a site that allows them does not allow training."""
    (workflow,) = config(JOBS / job, "server")["workflows"]
    (entry,) = config(JOBS / job, "client")["executors"]
    for component in (workflow, entry["executor"]):
        module, _, name = component["path"].rpartition(".")
        built = getattr(importlib.import_module(module), name)(**component["args"])
        assert all(getattr(built, argument) == value for argument, value in component["args"].items())
        assert name not in ("SuperModelController", "TrainingExecutor")
    told = built.allowed.items() & {("mode", job.removeprefix("inference-")), ("split", "test")}
    assert len(told) == 1 and entry["tasks"][0] == "offer"


def test_a_request_that_makes_no_sense_is_told_before_it_is_submitted() -> None:
    for asked, words in (({"gamma": 2.0}, "gamma"), ({"seconds": 0}, "seconds"), ({"keep_gates": True}, "mode route")):
        with pytest.raises(FedSuperError, match=words):
            InferenceRecipe("select", **asked)


def test_one_recipe_for_simulator_poc_and_production(tiny_study: Study, tmp_path: Path, monkeypatch) -> None:
    """Only where the machines have an allow-list for us does the job go without the mark of code."""
    monkeypatch.setenv("NVFLARE_POC_WORKSPACE", str(tmp_path / "poc"))
    (tmp_path / "kit").mkdir()
    environments = {
        "sim": SimEnv(num_clients=2), "poc": PocEnv(num_clients=2), "prod": ProdEnv(str(tmp_path / "kit"))}
    for name, environment in environments.items():
        FedSuperRecipe(tiny_study).export(str(tmp_path / name), env=environment)
        job = tmp_path / name / "fedsuper-fedsm"
        assert (job / "app" / "custom").exists() == (name != "prod")
        args = config(job, "client")["executors"][0]["executor"]["args"]
        assert args["models"] == declared_models(tiny_study)


def test_the_command_writes_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "study.yaml"
    study.write_text("method: fedavg\nrounds: 3\n")
    assert main(["job", str(study), "--out", str(tmp_path / "job")]) == 0
    told = config(tmp_path / "job", "server")["workflows"][0]["args"]["study"]
    assert parse_study(told) == parse_study({"method": "fedavg", "rounds": 3})
    assert main(["job", str(study), "--out", str(tmp_path / "job")]) == 0, "a job may be written again"
    assert main(["job", str(study), "--out", str(tmp_path)]) == 2 and not (tmp_path / "app").exists()
    assert "already holds something that is no job" in capsys.readouterr().err


def test_a_job_is_laid_out_for_reading_and_stays_json() -> None:
    value = {"a": [1, 2], "b": {"c": {}, "d": [{"e": "[ x ]"}, {}]}, "f": {"g": 0.1}, "h": []}
    assert json.loads(layout(value)) == value
    assert '"f": {"g": 0.1}' in layout(value)


@pytest.mark.parametrize("method", ["fedsm", "feddg"])
def test_no_byte_of_a_job_tells_of_a_machine_a_site_or_a_secret(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSUPER_DATA", str(tmp_path / "hospital-of-jane"))
    monkeypatch.setenv("FEDSUPER_STATE", str(tmp_path / "state"))
    write_job(parse_study({"method": method, "tracking": "tensorboard"}), tmp_path / "job")
    told = {str(path.relative_to(tmp_path / "job")): path.read_bytes() for path in (tmp_path / "job").rglob("*")
            if path.is_file()}
    secrets = [str(tmp_path), str(Path.home()), str(JOBS.parent), socket.gethostname(), "jane", "site-", "-----BEGIN",
               "password", "token", "/home/", "/data"]
    found = [(name, secret) for name, data in told.items() for secret in secrets if secret.encode() in data]
    assert len(told) >= 4 and not found


def test_nothing_is_streamed_unless_the_study_asks_for_it(tmp_path: Path) -> None:
    for name in ("none", "tensorboard"):
        write_job(parse_study({"method": "fedavg", "tracking": name}), tmp_path / name)
        for side in ("server", "client"):
            assert bool(config(tmp_path / name, side)["components"]) is (name != "none")


@pytest.mark.parametrize(
    ("study", "receiver", "told"),
    [
        ({"to": "mlflow", "uri": "file:///metrics"}, "MLflowReceiver", {"tracking_uri": "file:///metrics"}),
        ("wandb", "WandBReceiver", {"mode": None}),  # NVFlare's default: offline
        ({"to": "wandb", "online": True}, "WandBReceiver", {"mode": "online"}),
    ],
)
def test_a_tracker_is_chosen_in_the_study(
    study: object, receiver: str, told: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stand-ins for the trackers' packages: what counts here is which receiver the job names, and how."""
    for name in ("mlflow", "mlflow.entities", "mlflow.tracking", "mlflow.tracking.client", "wandb"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    monkeypatch.setenv("WANDB_MODE", "")
    write_job(parse_study({"method": "fedavg", "tracking": study}), tmp_path / "job")
    (component,) = config(tmp_path / "job", "server")["components"]
    assert component["path"].endswith(f".{receiver}") and component["path"].startswith("nvflare.")
    assert {name: component["args"].get(name) for name in told} == told
    writer, streamer = config(tmp_path / "job", "client")["components"]
    assert writer["path"].endswith("TBWriter") and streamer["path"].endswith("ConvertToFedEvent")


def test_a_tracker_that_is_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.delitem(sys.modules, "nvflare.app_opt.tracking.mlflow.mlflow_receiver", raising=False)
    with pytest.raises(FedSuperError, match=r"mlflow needs a package.*fedsuper\[mlflow\]"):
        FedSuperRecipe(parse_study({"method": "fedavg", "tracking": "mlflow"}))


@pytest.mark.parametrize("side", ["server", "client"])
@pytest.mark.parametrize("change", [
    {"task_data_filters": [{"tasks": ["train"], "filters": []}]},
    {"task_result_filters": [{"tasks": ["train"], "filters": []}]},
    {"components": [{"id": "meter", "path": "somebody.Meter", "args": {}}]},
    {"executors": [{"tasks": ["train"], "executor": {"path": "somebody.Executor"}}]},
])
def test_what_may_change_a_message_is_seen_in_the_job(
    tiny_study: Study, tmp_path: Path, side: str, change: dict[str, Any]
) -> None:
    assert may_change_messages(tmp_path / "nowhere")
    write_job(tiny_study, tmp_path)
    assert not may_change_messages(tmp_path)
    path = tmp_path / "app" / "config" / f"config_fed_{side}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert may_change_messages(tmp_path)
