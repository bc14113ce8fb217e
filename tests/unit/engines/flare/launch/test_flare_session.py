"""A job followed through an admin's session, against a scripted server."""

from __future__ import annotations

import io
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from nvflare.fuel.flare_api.api_spec import AuthorizationError, JobNotFound, JobNotRunning, NoConnection

from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.flare.launch import link
from fedsuper.engines.flare.launch import session as flare_session
from fedsuper.engines.flare.launch.events import EVENTS_FILE, PAUSE_COMMAND, SUPER_MODEL, EventReader, ServerProgress
from fedsuper.engines.flare.launch.link import Link
from fedsuper.engines.flare.launch.restarts import BrokenOffError, PausedError
from fedsuper.engines.flare.launch.session import JOB_FILE, run_job, running_job
from fedsuper.errors import FedSuperError
from fedsuper.federation.progress import Progress
from fedsuper.inference.artifact import save_super_model

UNKNOWN = "unknown to the server"


class ScriptedSession:
    """A server that goes through `script`: each step is a status and what an app command then gives or raises."""

    def __init__(self, workspace: Path, script: list[tuple[str, list[str] | Exception]]) -> None:
        self.workspace = workspace
        self.script = list(script)
        self.seen: list[int] = []
        self.aborted = 0
        self.paused = 0
        self.connected: list[str] = []
        self.sites: list[str] | None = None  # of a study that others may join

    def submit_job(self, path: str, submit_token: str) -> str:
        return "job-1"

    def get_job_status(self, job_id: str) -> str:
        if self.script[0][0] == UNKNOWN:
            raise JobNotFound(f"no such job: {job_id}")
        return "FINISHED:ABORTED" if self.aborted else self.script[0][0]

    def abort_job(self, job_id: str) -> None:
        self.aborted += 1

    def get_system_info(self) -> SimpleNamespace:
        clients = [SimpleNamespace(name=name, last_connect_time=time.time()) for name in self.connected]
        return SimpleNamespace(client_info=clients)

    def do_app_command(self, job_id: str, topic: str, data: dict) -> dict:
        if topic == PAUSE_COMMAND:
            self.paused += 1
            return {}
        self.seen.append(data["seen"])
        _, answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            raise answer
        return {"lines": answer, "silent": [] if self.sites else ["site-2"], "sites": self.sites}

    def close(self) -> None:
        return

    def download_job_result(self, job_id: str, destination: str) -> str:
        return str(self.workspace.parent)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flare_session, "POLL", 0.001)
    monkeypatch.setattr(flare_session, "GRACE", 0.01)
    monkeypatch.setattr(flare_session, "DEAD_AFTER", 0.05)
    monkeypatch.setattr(link, "RETRY", 0)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """What a finished job leaves on the server."""
    folder = tmp_path / "download" / "workspace"
    save_super_model(SuperModel(["a"], global_model={"w": torch.ones(2)}), folder / SUPER_MODEL)
    return folder


def events(workspace: Path, *calls) -> list[str]:
    server = ServerProgress("fedsm", lambda text: None, workspace / EVENTS_FILE)
    for call in calls:
        call(server)
    return server.path.read_text().splitlines(keepends=True)


def linked(session: ScriptedSession, shown: io.StringIO) -> tuple[Link, EventReader]:
    reader = EventReader(Progress("fedsm", 2, shown))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link, "open_session", lambda kit, timeout=0: session)
        return Link(Path("kit"), reader.progress.note), reader


def follow(session: ScriptedSession, folder: Path) -> tuple[Path, str]:
    shown = io.StringIO()
    server, reader = linked(session, shown)
    return run_job(server, Path("job"), folder, reader), shown.getvalue()


def test_rounds_are_shown_once_each_and_the_results_are_brought_home(workspace: Path, tmp_path: Path) -> None:
    lines = events(workspace, lambda s: s.round(1, "2/2 sites"), lambda s: s.round(2, "2/2 sites"), lambda s: s.done())
    session = ScriptedSession(workspace, [("SUBMITTED", JobNotRunning("")), ("RUNNING", lines[:1]), ("RUNNING", []),
                                          ("FINISHED:COMPLETED", [])])
    results, shown = follow(session, tmp_path / "run")
    assert [line.split("  ")[0] for line in shown.splitlines()] == [
        "fedsm: submitted as job job-1", "fedsm: round 1/2", "fedsm: round 2/2"]
    assert session.seen == [0, 0, 1]
    assert (results / SUPER_MODEL / "supermodel.json").exists()


def test_our_own_word_that_it_is_done_counts_before_nvflares_status(workspace: Path, tmp_path: Path) -> None:
    """A site that died meanwhile makes the status abnormal; the others' work is there."""
    events(workspace, lambda s: s.done())
    results, _ = follow(ScriptedSession(workspace, [("FINISHED:ABNORMAL", [])]), tmp_path / "run")
    assert results == workspace


def test_an_admin_without_the_right_sees_the_rounds_at_the_end(workspace: Path, tmp_path: Path) -> None:
    events(workspace, lambda s: s.round(1, "2/2 sites"), lambda s: s.done())
    session = ScriptedSession(workspace, [("RUNNING", AuthorizationError("no")), ("FINISHED:COMPLETED", [])])
    _, shown = follow(session, tmp_path / "run")
    assert shown.count("app_command") == 1 and "round 1/2" in shown and session.seen == [0]


def test_a_failed_study_is_its_own_reason(workspace: Path, tmp_path: Path) -> None:
    events(workspace, lambda s: s.failed("site-2: cannot take part (no labels)"))
    with pytest.raises(FedSuperError, match=r"^site-2: cannot take part \(no labels\)$"):
        follow(ScriptedSession(workspace, [("FINISHED:EXECUTION_EXCEPTION", [])]), tmp_path / "run")


def test_a_job_that_never_began_points_to_the_allow_list(workspace: Path, tmp_path: Path) -> None:
    with pytest.raises(FedSuperError, match="FINISHED:ABNORMAL before the study began.*allow-list"):
        follow(ScriptedSession(workspace, [("FINISHED:ABNORMAL", [])]), tmp_path / "run")


def test_a_job_that_broke_off_is_not_taken_for_a_result(workspace: Path, tmp_path: Path) -> None:
    """Its run folder may hold a super model of an earlier attempt."""
    events(workspace, lambda s: s.round(1, "2/2 sites"))
    with pytest.raises(BrokenOffError, match="mid-study"):
        follow(ScriptedSession(workspace, [("FINISHED:ABNORMAL", [])]), tmp_path / "run")
    with pytest.raises(BrokenOffError, match="FORGOTTEN in mid-study"):  # by a server that was set up anew
        follow(ScriptedSession(workspace, [(UNKNOWN, JobNotFound(""))]), tmp_path / "run")
    with pytest.raises(FedSuperError, match="aborted by an admin") as told:
        follow(ScriptedSession(workspace, [("FINISHED:ABORTED", [])]), tmp_path / "run")
    assert not isinstance(told.value, BrokenOffError), "what an admin ended stays ended"
    assert not (tmp_path / "run" / "supermodel").exists()


def test_a_refused_job_is_one_line(workspace: Path, tmp_path: Path) -> None:
    session = ScriptedSession(workspace, [])

    def refuse(path: str, submit_token: str) -> str:
        raise AuthorizationError("user not\nauthorized")

    session.submit_job = refuse
    with pytest.raises(FedSuperError, match=r"refused the job \(user not authorized\)"):
        follow(session, tmp_path / "run")


def test_a_job_whose_work_is_done_is_not_waited_for(workspace: Path, tmp_path: Path) -> None:
    """NVFlare would wait a quarter of an hour for the last word of a site that is frozen or gone."""
    lines = events(workspace, lambda s: s.done())
    session = ScriptedSession(workspace, [("RUNNING", lines), ("RUNNING", [])])
    results, _ = follow(session, tmp_path / "run")
    assert results == workspace and session.aborted == 1
    assert not (tmp_path / "run" / JOB_FILE).exists()


def test_a_running_job_for_which_nobody_answers_is_dead(workspace: Path, tmp_path: Path) -> None:
    lines = events(workspace, lambda s: s.round(1, "2/2 sites"))
    session = ScriptedSession(workspace, [("RUNNING", lines), ("RUNNING", JobNotRunning("gone"))])
    with pytest.raises(BrokenOffError, match="its process on the server is gone"):
        follow(session, tmp_path / "run")
    assert session.aborted == 1


def test_a_job_may_take_its_time_to_start(workspace: Path, tmp_path: Path) -> None:
    lines = events(workspace, lambda s: s.round(1, "2/2 sites"), lambda s: s.done())
    slow = [("RUNNING", JobNotRunning("not yet"))] * 100  # ten times as long as a job that once answered may be silent
    session = ScriptedSession(workspace, [*slow, ("RUNNING", lines), ("FINISHED:COMPLETED", [])])
    assert follow(session, tmp_path / "run")[0] == workspace and session.aborted == 0


def test_the_site_that_died_is_named_and_the_run_can_go_on(workspace: Path, tmp_path: Path) -> None:
    events(workspace, lambda s: s.failed("site-2: its job process died, and with it the job", broken=True))
    with pytest.raises(BrokenOffError, match="^site-2: its job process died"):
        follow(ScriptedSession(workspace, [("FINISHED:ABORTED", [])]), tmp_path / "run")


def test_a_lost_connection_is_waited_out(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = events(workspace, lambda s: s.round(1, "2/2 sites"), lambda s: s.done())
    session = ScriptedSession(workspace, [("RUNNING", lines[:1]), ("RUNNING", NoConnection("no route")),
                                          ("RUNNING", NoConnection("no route")), ("FINISHED:COMPLETED", lines[1:])])
    monkeypatch.setattr(link, "open_session", lambda kit, timeout=0: session)
    results, shown = follow(session, tmp_path / "run")
    assert results == workspace and shown.count("cannot be reached (no route)") == 1 == shown.count("is back")


def test_a_server_that_stays_away_is_one_line(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "PATIENCE", 0.01)
    session = ScriptedSession(workspace, [])
    server, _ = linked(session, io.StringIO())

    def unreachable(kit: Path, timeout: float = 0) -> ScriptedSession:
        raise FedSuperError("cannot log in")

    def lost(session: object) -> None:
        raise NoConnection("no route")

    monkeypatch.setattr(link, "open_session", unreachable)
    with pytest.raises(FedSuperError, match="could not be reached for .*--resume"):
        server.ask(lost)


@pytest.mark.parametrize(("sites", "again"), [(None, " again"), (["site-1"], "")])
def test_a_site_that_was_started_anew_or_is_new_joins_after_the_round(
    sites: list[str] | None, again: str, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new one once: where it is there the second time and still no part of the study, it does not fit."""
    monkeypatch.setattr(flare_session, "LOOK_AROUND", -1)
    lines = events(workspace, lambda s: s.round(1, "1/2 sites"), lambda s: s.paused())
    script = [("RUNNING", [])] * 4 + [("RUNNING", lines), ("FINISHED:COMPLETED", [])]
    session, shown = ScriptedSession(workspace, []), io.StringIO()
    session.connected, session.sites = ["site-1", "site-2"], sites
    server, reader = linked(session, shown)
    for _ in range(2):
        session.script = list(script)
        with pytest.raises(PausedError, match="paused after round 1"):
            run_job(server, Path("job"), tmp_path / "run", reader)
        reader.begin_again()
    assert session.paused == shown.getvalue().count(f"site-2: is connected{again}; it joins") == (1 if sites else 2)


@pytest.mark.parametrize(("status", "answer", "found"), [
    ("RUNNING", [], "job-7"), ("SUBMITTED", JobNotRunning(""), "job-7"), ("FINISHED:COMPLETED", [], None),
    ("RUNNING", JobNotRunning("dead"), None), (UNKNOWN, JobNotFound(""), None)])
def test_a_job_still_at_work_is_found_again(status: str, answer: list[str] | Exception, found: str | None,
                                            workspace: Path, tmp_path: Path) -> None:
    server, _ = linked(ScriptedSession(workspace, [(status, answer)]), io.StringIO())
    assert running_job(server, tmp_path) is None
    (tmp_path / JOB_FILE).write_text('{"job": "job-7"}')
    assert running_job(server, tmp_path) == found
