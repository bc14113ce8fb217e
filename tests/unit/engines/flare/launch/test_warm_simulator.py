"""What the warm simulator changes of NVFlare's costs or saves time only: here is what it saves."""

from __future__ import annotations

import logging
import threading
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import SimpleNamespace

import pytest
from nvflare.apis.event_type import EventType
from nvflare.apis.shareable import Shareable
from nvflare.app_common.workflows.model_controller import ModelController
from nvflare.fuel.f3 import communicator
from nvflare.fuel.f3.drivers.driver_manager import DriverManager
from nvflare.fuel.f3.drivers.tcp_driver import TcpDriver
from nvflare.fuel.utils.fobs import fobs
from nvflare.private.defs import SpecialTaskName
from nvflare.private.fed.client.client_runner import ClientRunner

from fedsuper.engines.flare import reporting_controller
from fedsuper.engines.flare.contact.doorbell import Doorbell
from fedsuper.engines.flare.contact.shared_tensors import SharedTensors
from fedsuper.engines.flare.launch import warm_simulator
from fedsuper.engines.flare.reporting_controller import ReportingController
from fedsuper.engines.flare.settings import SHARED, SIMULATED

NOTHING = (SpecialTaskName.TRY_AGAIN, "", None)
SITE = SimpleNamespace(name="site-1")


class Server:
    """NVFlare's runner as far as it answers sites: with a task where there is one."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.asked = threading.Semaphore(0)
        self.questions = 0

    def process_task_request(self, client: SimpleNamespace, fl_ctx: None) -> tuple[str, str, None]:
        self.questions += 1
        self.asked.release()
        return (self.tasks.pop(), "1", None) if self.tasks else NOTHING


@pytest.fixture()
def bell(monkeypatch: pytest.MonkeyPatch) -> Doorbell:
    one = Doorbell()
    monkeypatch.setattr(warm_simulator, "WORK", one)
    return one


@pytest.fixture()
def server() -> Server:
    return type("Open", (Server,), {"process_task_request": Server.process_task_request})()


def test_a_question_is_answered_when_there_is_work(bell: Doorbell, server: Server) -> None:
    warm_simulator.keep_questions_open(type(server), 60)
    answers: list[tuple[str, str, None]] = []
    site = threading.Thread(target=lambda: answers.append(server.process_task_request(SITE, None)))
    site.start()
    server.asked.acquire()
    server.tasks.append("train")
    bell.ring(SITE.name)
    site.join(30)
    assert answers == [("train", "1", None)] and server.questions == 2


def test_a_question_does_not_stay_open_for_ever(bell: Doorbell, server: Server) -> None:
    warm_simulator.keep_questions_open(type(server), 0.01)
    assert server.process_task_request(SITE, None) == NOTHING and server.questions == 1


def test_somebody_elses_ring_costs_the_others_nothing(bell: Doorbell, server: Server) -> None:
    """With as many questions open as there are sites, every task would otherwise be looked for by all of them."""
    warm_simulator.keep_questions_open(type(server), 60)
    answers: list[tuple[str, str, None]] = []
    site = threading.Thread(target=lambda: answers.append(server.process_task_request(SITE, None)))
    site.start()
    server.asked.acquire()
    for _ in range(20):
        bell.ring("site-2")
    server.tasks.append("train")
    bell.ring(SITE.name)
    site.join(30)
    assert answers == [("train", "1", None)] and server.questions == 2


def test_naps_are_shorter_and_everything_else_of_time_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(time=time)
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    warm_simulator.nap_shorter(module, 0.05)
    module.time.sleep(3.0)
    module.time.sleep(0.01)
    assert slept == [0.05, 0.01] and module.time.monotonic is time.monotonic and module.time.time is time.time


def test_only_what_carries_the_simulators_messages_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(communicator, "driver_mgr", DriverManager())
    monkeypatch.setattr(communicator, "driver_loaded", False)
    warm_simulator.warm_up()
    assert communicator.driver_loaded and set(communicator.driver_mgr.drivers.values()) == {TcpDriver}
    assert communicator.driver_mgr.find_driver_class("tcp://localhost:1") is TcpDriver


def test_tensors_travel_through_the_folder_that_a_fork_is_given_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for registered in ("_decomposers", "_dot_handlers"):
        monkeypatch.setattr(fobs, registered, dict(getattr(fobs, registered)))
    monkeypatch.delenv(SHARED, raising=False)
    warm_simulator.hand_tensors_over()
    before = fobs._decomposers["torch.Tensor"]
    monkeypatch.setenv(SHARED, str(tmp_path))
    warm_simulator.hand_tensors_over()
    after = fobs._decomposers["torch.Tensor"]
    assert not isinstance(before, SharedTensors) and isinstance(after, SharedTensors) and after.folder == tmp_path
    assert all(fobs._dot_handlers[kind] is after for kind in after.supported_dots())


def test_sites_with_open_questions_hear_at_once_that_the_job_is_over(
    bell: Doorbell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting_controller, "WORK", bell)
    monkeypatch.setattr(ModelController, "handle_event", lambda *_: None)
    ReportingController.handle_event(object.__new__(ReportingController), EventType.START_RUN, None)
    assert not bell.wait(SITE.name, 0, 0)
    ReportingController.handle_event(object.__new__(ReportingController), EventType.ABOUT_TO_END_RUN, None)
    assert bell.wait(SITE.name, 0, 0)


def test_an_answer_is_sent_without_asking_first_and_again_where_it_did_not_arrive() -> None:
    """NVFlare asks before every attempt; what it does when one fails is as it was."""
    runner = type("Runner", (ClientRunner,), {})
    warm_simulator.send_at_once(runner)
    said: list[str] = []
    arrives = iter([False, True])
    engine = SimpleNamespace(send_task_result=lambda *_, **__: said.append("result") or next(arrives),
                             send_aux_request=lambda *_, **__: said.append("question"))
    site = object.__new__(runner)
    vars(site).update(engine=engine, run_abort_signal=SimpleNamespace(triggered=False), parent_target="server",
                      submit_task_result_timeout=1, task_check_interval=0)
    for name in ("log_debug", "log_info", "log_error"):
        setattr(site, name, lambda *_: None)
    assert site._send_task_result(Shareable(), "1", None) and said == ["result", "result"]


def test_a_log_still_begins_a_new_file_when_the_old_one_is_full(tmp_path: Path) -> None:
    handler_type = type("Handler", (RotatingFileHandler,), {})
    warm_simulator.log_cheaper(handler_type)
    handler = handler_type(tmp_path / "log.txt", maxBytes=1000, backupCount=1, delay=True)
    for number in range(30):
        handler.emit(logging.LogRecord("a", logging.INFO, "", 0, f"{number:099d}", None, None))
    handler.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.txt", "log.txt.1"]
    assert all(path.stat().st_size <= 1100 for path in tmp_path.iterdir())


@pytest.mark.parametrize(("job", "shared"), [(SIMULATED, True), ("a job of a real server", False)])
def test_only_the_simulator_sends_tensors_without_copying_them_first(
    monkeypatch: pytest.MonkeyPatch, job: str, shared: bool
) -> None:
    monkeypatch.setattr(ModelController, "_prepare_task_data", lambda *_: None)
    asked = SimpleNamespace(task=SimpleNamespace(data=Shareable()))
    context = SimpleNamespace(get_job_id=lambda: job)
    ReportingController._prepare_task_data(object.__new__(ReportingController), asked, context)
    assert (getattr(asked.task, "_broadcast_data", None) is asked.task.data) == shared
