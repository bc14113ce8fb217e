"""A site's worker in a child process: the same bits, and whatever ends the child is an answer."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fedsuper.config import Study
from fedsuper.errors import FedSuperError
from fedsuper.federation import site_process
from fedsuper.federation.messages import DESCRIBE, Message
from fedsuper.federation.outlet.release import SiteRules
from fedsuper.federation.site_process import ANSWERED, ASKED, SiteProcess, answer, described, restored
from fedsuper.federation.site_worker import SiteWorker
from fedsuper.train.checkpoint import load_models, save_models


@pytest.fixture(scope="module")
def process(tiny_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteProcess]:
    folder = tmp_path_factory.mktemp("isolated")
    (folder / "state" / "asked-before").mkdir(parents=True)  # left by a job process that was killed
    (folder / "state" / ".partial-1.safetensors").touch()
    made = SiteProcess(SiteWorker("site-1", tiny_root, folder / "state"), folder)
    yield made
    made.end()
    assert [path.name for path in (folder / "state").iterdir() if path.name.startswith(("asked-", ".partial-"))] == []


def ask(process: SiteProcess, study: Study, seconds: float = 120, task: str = DESCRIBE) -> Message:
    message = Message({}, {"study": study.to_json(), "resume": False})
    return process.handle(task, message, seconds, lambda: False)


def kill_when_asked(process: SiteProcess, pid: int) -> None:
    """Kill the child, which was stopped, as soon as a new task lies before it."""
    assert process._folder is not None
    task = Path(process._folder.name) / ASKED
    before = task.stat().st_ino
    while task.stat().st_ino == before:
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)


def pid_of(process: SiteProcess) -> int:
    assert process._process is not None
    return process._process.pid


def test_images_that_are_gone_are_a_reason_without_a_path(tiny_study: Study, tmp_path: Path) -> None:
    worker = SiteWorker("site-1", tmp_path / "data", tmp_path / "state")
    (tmp_path / "data").mkdir()
    save_models(tmp_path / ASKED, {}, {"task": DESCRIBE, "info": {"study": tiny_study.to_json(), "resume": False}})
    word = answer(worker, tmp_path, DESCRIBE)
    assert word.startswith("refused ") and str(tmp_path) not in word


def test_a_child_answers_as_the_worker_does_and_each_way_to_end_it_is_a_reason(
    process: SiteProcess, tiny_study: Study, tiny_root: Path, tmp_path: Path
) -> None:
    """One test, because each child costs seconds to start: an answer, a refusal, a kill, another child, a hang."""
    expected = SiteWorker("site-1", tiny_root, tmp_path / "here").handle(
        DESCRIBE, Message({}, {"study": tiny_study.to_json(), "resume": False}))
    assert ask(process, tiny_study) == expected
    with pytest.raises(FedSuperError, match="unknown task 'dance'"):
        ask(process, tiny_study, task="dance")
    first = pid_of(process)
    os.kill(first, signal.SIGSTOP)
    killed = threading.Thread(target=kill_when_asked, args=(process, first))
    killed.start()
    with pytest.raises(FedSuperError, match=r"its training process died \(exit -9\), often for lack of memory"):
        ask(process, tiny_study)
    killed.join()
    assert ask(process, tiny_study) == expected, "the next task starts another"
    second = pid_of(process)
    os.kill(second, signal.SIGSTOP)
    with pytest.raises(FedSuperError, match="was not done within 0.5 s"):
        ask(process, tiny_study, seconds=0.5)
    assert first != second
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)


def test_a_worker_is_the_same_in_another_process(tmp_path: Path) -> None:
    rules = SiteRules(minimum=5, refuse_methods=["feddg"], refuse_models=[], epsilon=2.0)
    worker = SiteWorker("site-1", tmp_path / "data", tmp_path / "state", rules, tmp_path / "audit.jsonl")
    assert vars(restored(described(worker))) | {"data": None} == vars(worker) | {"data": None}


class Crashing(SiteWorker):
    def __post_init__(self) -> None:
        return

    def handle(self, task: str, message: Message) -> Message:
        if task == "crash":
            raise OSError("the disk is\ngone")
        return Message({"global": {"weight": message.models["global"]["weight"].t() / 3}}, {"round": 1})


def test_tensors_keep_their_bits_and_a_crash_is_one_line(tmp_path: Path) -> None:
    worker = Crashing("site-1", tmp_path, tmp_path)
    weight = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    save_models(tmp_path / ASKED, {"global": {"weight": weight}}, {"info": {}})
    assert answer(worker, tmp_path, "train") == site_process.DONE
    assert torch.equal(load_models(tmp_path / ANSWERED)[0]["global"]["weight"], weight.t() / 3)
    said = answer(worker, tmp_path, "crash")
    assert said.startswith(site_process.REFUSED) and "OSError; " in said and "gone" not in said
