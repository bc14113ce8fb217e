"""A site's executor: answers tasks, and turns every kind of trouble into a reason."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from nvflare.apis.signal import Signal
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

from fedsuper.config import Study
from fedsuper.engines.flare import settings
from fedsuper.engines.flare.executor import FedSuperExecutor
from fedsuper.engines.flare.wire import pack, unpack
from fedsuper.engines.messages import DESCRIBE, TRAIN, Message, SiteFailure
from fedsuper.engines.site import SiteWorker


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
    """A site `site-1` with an empty NVFlare workspace and an empty environment."""
    for name in (settings.DATA, settings.STATE, settings.FILE, settings.DEVICE, settings.DEVICES):
        monkeypatch.delenv(name, raising=False)
    workspace = SimpleNamespace(get_site_config_dir=lambda: str(tmp_path / "local"),
                                get_run_dir=lambda job_id: str(tmp_path / job_id))
    engine = SimpleNamespace(get_workspace=lambda: workspace, get_component=lambda name: tracker)
    return SimpleNamespace(get_identity_name=lambda: "site-1", get_engine=lambda: engine, get_job_id=lambda: "job-7")


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> FedSuperExecutor:
    executor = FedSuperExecutor()
    for name in ("log_warning", "log_exception"):
        monkeypatch.setattr(executor, name, lambda context, text: None)
    return executor


def ask(executor: FedSuperExecutor, context, study: Study, task: str = DESCRIBE, **info) -> Message | SiteFailure:
    message = pack(Message({}, {"study": study.to_json(), **info}))
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


def test_a_process_keeps_its_worker_and_its_samples(executor, context, tiny_study, tiny_root, monkeypatch) -> None:
    monkeypatch.setenv(settings.DATA, str(tiny_root))
    ask(executor, context, tiny_study)
    first = executor._worker
    ask(executor, context, tiny_study)
    assert executor._worker is first and first is not None


def test_state_lives_in_the_run_folder_unless_told_otherwise(context, tiny_study, tiny_root, tmp_path, monkeypatch):
    monkeypatch.setenv(settings.DATA, str(tiny_root))
    message = Message({}, {"study": tiny_study.to_json()})
    assert FedSuperExecutor()._worker_for(message, context).state_folder == tmp_path / "job-7" / "state"
    monkeypatch.setenv(settings.STATE, str(tmp_path / "keep"))
    assert FedSuperExecutor()._worker_for(message, context).state_folder == tmp_path / "keep" / "site-1"


@pytest.mark.parametrize("trouble", [RuntimeError("CUDA out of\nmemory"), MemoryError(), KeyError("x")])
def test_any_exception_becomes_one_line(executor, context, tiny_study, tiny_root, monkeypatch, trouble) -> None:
    monkeypatch.setenv(settings.DATA, str(tiny_root))

    def fail(self, task, message):
        raise trouble

    monkeypatch.setattr(SiteWorker, "handle", fail)
    answer = ask(executor, context, tiny_study)
    assert isinstance(answer, SiteFailure)
    assert type(trouble).__name__ in answer.reason and "\n" not in answer.reason


def test_metrics_are_streamed_with_their_round(executor, context, tiny_study, tiny_root, tracker, monkeypatch) -> None:
    monkeypatch.setenv(settings.DATA, str(tiny_root))
    monkeypatch.setattr(SiteWorker, "handle", lambda self, task, message: Message({}, {"metrics": {"val/global": 0.5}}))
    ask(executor, context, tiny_study, TRAIN, round=4)
    assert tracker.scalars == [("val/global", 0.5, 5)]


def test_the_site_files_device_is_used(executor, context, tiny_study, tiny_root, tmp_path, monkeypatch) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "fedsuper.yaml").write_text(f"data_root: {tiny_root}\ndevice: cuda:99\n")
    monkeypatch.setenv(settings.DEVICE, "")  # so that the executor's own setting is undone after the test
    message = Message({}, {"study": tiny_study.to_json()})
    executor._worker_for(message, context)
    assert os.environ[settings.DEVICE] == "cuda:99"
