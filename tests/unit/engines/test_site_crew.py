"""Sites in worker processes: the bits of one process, one line for what goes wrong, and no process left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from fedsuper.config import Study
from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.in_process import LocalExchange, run_local
from fedsuper.engines.site_crew import ProcessExchange, dealt
from fedsuper.federation.messages import DESCRIBE, Message, SiteFailure
from fedsuper.federation.progress import Silent
from fedsuper.federation.site_worker import SiteWorker
from fedsuper.train.checkpoint import digest


def test_the_largest_sites_are_dealt_first_to_whoever_has_least() -> None:
    assert dealt({"a": 5, "b": 90, "c": 40, "d": 50}, 2) == [["b", "a"], ["d", "c"]]
    assert dealt({"a": 0, "b": 0}, 5) == [["a"], ["b"]]


def digests(super_model: SuperModel) -> dict[str, str]:
    return {name: digest(state) for name, state in super_model.experts().items()}


def test_two_processes_give_the_bits_of_one(tiny_root: Path, tiny_study: Study, tmp_path: Path) -> None:
    one = run_local(tiny_study, tiny_root, tmp_path / "one", Silent(), threads=1)
    two = run_local(tiny_study, tiny_root, tmp_path / "two", Silent(), threads=2)
    assert digests(one) == digests(two)
    assert len(list((tmp_path / "two").glob("worker-*/training.log"))) == 2


def test_a_death_is_a_failure_of_one_site_and_the_others_answer(
    tiny_root: Path, tiny_study: Study, tmp_path: Path
) -> None:
    """One test, because each process costs seconds to start."""
    workers = {name: SiteWorker(name, tiny_root, tmp_path / name) for name in ("site-1", "site-2", "nowhere")}
    asked = Message({}, {"study": tiny_study.to_json(), "resume": False})
    messages = dict.fromkeys([*workers, "gone"], asked)
    expected = LocalExchange(workers, 1)(DESCRIBE, messages, 60)
    with ProcessExchange(workers, 2, tmp_path) as exchange:
        assert exchange.sites == list(workers)
        assert exchange(DESCRIBE, messages, 120) == expected, "answers, and the lines of what went wrong"
        assert isinstance(expected["nowhere"], SiteFailure) and expected["gone"] == SiteFailure(
            "it is not connected: its folder is not in the data root", absent=True)
        pids = _pids(exchange)
        os.kill(pids[0], signal.SIGKILL)
        found = exchange(DESCRIBE, messages, 120)
        first, *rest = exchange.shares[0]
        failure = found[first]
        assert isinstance(failure, SiteFailure) and "its training process died (exit -9)" in str(failure)
        assert {name: found[name] for name in found if name != first} == {
            name: expected[name] for name in expected if name != first}, "the next task starts another process"
        pids = _pids(exchange)
    _none_is_left(pids)


def test_ctrl_c_ends_the_processes(tiny_root: Path, tiny_study: Study, tmp_path: Path,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    workers = {name: SiteWorker(name, tiny_root, tmp_path / name) for name in ("site-1", "site-2")}
    asked = dict.fromkeys(workers, Message({}, {"study": tiny_study.to_json(), "resume": False}))
    seen: list[int] = []
    with ProcessExchange(workers, 2, tmp_path) as exchange:
        started = exchange._processes[1]._started

        def interrupted(*_: object) -> Path:
            started()
            seen.extend(_pids(exchange))
            raise KeyboardInterrupt

        monkeypatch.setattr(exchange._processes[1], "_started", interrupted)
        for process in exchange._processes[:1]:
            process._started()
        os.kill(_pids(exchange)[0], signal.SIGSTOP)  # busy for ever
        with pytest.raises(KeyboardInterrupt):
            exchange(DESCRIBE, asked, 600)
    _none_is_left(seen)


def _pids(exchange: ProcessExchange) -> list[int]:
    return [process._process.pid for process in exchange._processes if process._process is not None]


def _none_is_left(pids: Mapping[int, object] | list[int]) -> None:
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
