"""A site's executor: answers tasks, and turns every kind of trouble into a reason."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from nvflare.apis.signal import Signal
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.private.fed.simulator.simulator_const import SimulatorConstants

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.engines.flare import settings
from fedsuper.engines.flare.executor import TrainingExecutor, declared_models
from fedsuper.engines.flare.wire import pack, unpack
from fedsuper.federation.messages import DESCRIBE, TRAIN, Message, SiteFailure
from fedsuper.federation.site_worker import SiteWorker


class Recorder:
    """Stands for NVFlare's TBWriter."""

    def __init__(self) -> None:
        self.scalars: list[tuple[str, float, int]] = []

    def add_scalar(self, tag: str, scalar: float, global_step: int) -> None:
        self.scalars.append((tag, scalar, global_step))


@pytest.fixture
def tracker() -> Recorder:
    return Recorder()


@pytest.fixture
def context(tmp_path: Path, tracker: Recorder, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A simulated site `site-1` (no child process) with an empty NVFlare workspace and an empty environment."""
    for name in (settings.DATA, settings.STATE, settings.FILE, settings.DEVICE, settings.DEVICES):
        monkeypatch.delenv(name, raising=False)
    workspace = SimpleNamespace(get_site_config_dir=lambda: str(tmp_path / "local"),
                                get_run_dir=lambda job_id: str(tmp_path / job_id), get_root_dir=lambda: str(tmp_path))
    engine = SimpleNamespace(get_workspace=lambda: workspace, get_component=lambda name: tracker)
    return SimpleNamespace(get_identity_name=lambda: "site-1", get_engine=lambda: engine,
                           get_job_id=lambda: SimulatorConstants.JOB_NAME)


def executor_for(study: Study) -> TrainingExecutor:
    """As the study's job would make it."""
    return TrainingExecutor(study.method, declared_models(study), "tracker")


@pytest.fixture
def executor(tiny_study: Study, monkeypatch: pytest.MonkeyPatch) -> TrainingExecutor:
    executor = executor_for(tiny_study)
    for name in ("log_warning", "log_exception"):
        monkeypatch.setattr(executor, name, lambda context, text: None)
    return executor


def ask(executor: TrainingExecutor, context, study: Study, task: str = DESCRIBE, **info) -> Message | SiteFailure:
    message = pack(Message({}, {"study": study.to_json(), "resume": False, **info}))
    answer = executor.execute(task, FLModelUtils.to_shareable(message), context, Signal())
    return unpack(FLModelUtils.from_shareable(answer))


def test_a_site_describes_itself(executor, context, tiny_study: Study, tiny_root: Path, monkeypatch) -> None:
    monkeypatch.setenv(settings.DATA, str(tiny_root))
    answer = ask(executor, context, tiny_study)
    assert isinstance(answer, Message) and answer.info["samples"]["train"] > 0


def test_a_site_without_a_data_root_says_how_to_give_one(executor, context, tiny_study: Study) -> None:
    answer = ask(executor, context, tiny_study)
    assert isinstance(answer, SiteFailure)
    assert answer.reason.startswith("site-1:") and settings.DATA in answer.reason and "\n" not in answer.reason


def test_the_job_names_the_three_models_of_fedsm(tiny_study: Study) -> None:
    models = declared_models(tiny_study)
    assert list(models) == ["global", "personal", "selector"]
    assert models["personal"] == {"kind": "segmentation", "holder": "server", "per_site": True}
    assert models["selector"]["kind"] == "selector"


@pytest.mark.parametrize("change", [
    {"method": "fedavg"},
    {"method": "fedsm", "fedsm": {"personal": "iop-fl"}},
    {"method": "fedsm", "fedsm": {"personal": "pfedme"}},
], ids=["method", "who holds a model", "one model more"])
def test_a_server_that_asks_for_other_models_than_the_job_names_is_refused(
    executor, context, tiny_study: Study, tiny_root: Path, monkeypatch, change
) -> None:
    monkeypatch.setenv(settings.DATA, str(tiny_root))
    other = parse_study({**tiny_study.to_json(), **change})
    answer = ask(executor, context, other)
    assert isinstance(answer, SiteFailure)
    assert "the job's executor trains fedsm (global, personal, selector)" in answer.reason
    assert executor._worker is None and "\n" not in answer.reason


def test_a_process_keeps_its_worker_and_its_samples(executor, context, tiny_study, tiny_root, monkeypatch) -> None:
    monkeypatch.setenv(settings.DATA, str(tiny_root))
    ask(executor, context, tiny_study)
    first = executor._worker
    ask(executor, context, tiny_study)
    assert executor._worker is first and first is not None


def test_state_lives_in_the_run_folder_unless_told_otherwise(context, tiny_study, tiny_root, tmp_path, monkeypatch):
    monkeypatch.setenv(settings.DATA, str(tiny_root))
    beside = tmp_path / SimulatorConstants.JOB_NAME / "state"
    assert executor_for(tiny_study)._prepare(tiny_study, context).state_folder == beside
    monkeypatch.setenv(settings.STATE, str(tmp_path / "keep"))
    assert executor_for(tiny_study)._prepare(tiny_study, context).state_folder == tmp_path / "keep" / "site-1"


@pytest.mark.parametrize("trouble", [RuntimeError("/data/jane.png: CUDA out of\nmemory"), MemoryError(), KeyError("x")])
def test_any_exception_becomes_one_line(executor, context, tiny_study, tiny_root, monkeypatch, trouble) -> None:
    monkeypatch.setenv(settings.DATA, str(tiny_root))

    def fail(self, task, message):
        raise trouble

    monkeypatch.setattr(SiteWorker, "handle", fail)
    answer = ask(executor, context, tiny_study)
    assert isinstance(answer, SiteFailure)
    assert type(trouble).__name__ in answer.reason and "\n" not in answer.reason and "jane" not in answer.reason


def test_metrics_are_streamed_with_their_round(
    executor, context, tiny_study, tiny_root, tracker, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv(settings.DATA, str(tiny_root))
    monkeypatch.setattr(SiteWorker, "handle", lambda self, task, message: Message({}, {"metrics": {"val/global": 0.5}}))
    ask(executor, context, tiny_study, TRAIN, round=4)
    assert tracker.scalars == [("val/global", 0.5, 5)]
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "fedsuper.yaml").write_text("refuse_streaming: true\n")
    executor._worker = None
    ask(executor, context, tiny_study, TRAIN, round=5)
    assert len(tracker.scalars) == 1, "the site's word counts"


def test_the_site_files_device_is_used(executor, context, tiny_study, tiny_root, tmp_path, monkeypatch) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "fedsuper.yaml").write_text(f"data_root: {tiny_root}\ndevice: cuda:99\n")
    monkeypatch.setenv(settings.DEVICE, "")  # so that the executor's own setting is undone after the test
    executor._prepare(tiny_study, context)
    assert os.environ[settings.DEVICE] == "cuda:99"


def test_outside_the_simulator_training_has_a_process_of_its_own(context, tiny_study, tiny_root, monkeypatch) -> None:
    monkeypatch.setenv(settings.DATA, str(tiny_root))
    context.get_job_id = lambda: "job-7"
    executor = executor_for(tiny_study)
    executor._prepare(tiny_study, context)
    assert executor._process is not None and executor._process.worker.name == "site-1"
