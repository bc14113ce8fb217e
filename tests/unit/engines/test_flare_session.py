"""A job followed through an admin's session, against a scripted server."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from nvflare.fuel.flare_api.api_spec import AuthorizationError, JobNotRunning

from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.flare import session as flare_session
from fedsuper.engines.flare.controller import EVENTS_FILE, SUPER_MODEL
from fedsuper.engines.flare.events import EventReader, ServerProgress
from fedsuper.engines.flare.session import COMPLETED, run_job
from fedsuper.engines.progress import Progress
from fedsuper.errors import FedSuperError
from fedsuper.inference.artefact import load_super_model, save_super_model


class ScriptedSession:
    """A server that goes through `script`: each step is a status and what an app command then gives or raises."""

    def __init__(self, workspace: Path, script: list[tuple[str, list[str] | Exception]]) -> None:
        self.workspace = workspace
        self.script = list(script)
        self.seen: list[int] = []

    def submit_job(self, path: str) -> str:
        return "job-1"

    def get_job_status(self, job_id: str) -> str:
        return self.script[0][0]

    def do_app_command(self, job_id: str, topic: str, data: dict) -> dict:
        self.seen.append(data["seen"])
        _, answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"lines": answer}

    def download_job_result(self, job_id: str, destination: str) -> str:
        return str(self.workspace.parent)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flare_session, "POLL", 0)


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


def follow(session: ScriptedSession, folder: Path) -> tuple[SuperModel, str]:
    shown = io.StringIO()
    return run_job(session, Path("job"), folder, EventReader(Progress("fedsm", 2, shown))), shown.getvalue()


def test_rounds_are_shown_once_each_and_the_super_model_is_brought_home(workspace: Path, tmp_path: Path) -> None:
    lines = events(workspace, lambda s: s.round(1, "2/2 sites"), lambda s: s.round(2, "2/2 sites"), lambda s: s.done())
    session = ScriptedSession(workspace, [("SUBMITTED", JobNotRunning("")), ("RUNNING", lines[:1]), ("RUNNING", []),
                                          (COMPLETED, [])])
    super_model, shown = follow(session, tmp_path / "run")
    assert [line.split("  ")[0] for line in shown.splitlines()] == [
        "fedsm: submitted as job job-1", "fedsm: round 1/2", "fedsm: round 2/2"]
    assert session.seen == [0, 0, 1]
    kept = load_super_model(tmp_path / "run" / "supermodel")
    assert torch.equal(kept.global_model["w"], super_model.global_model["w"])


def test_an_admin_without_the_right_sees_the_rounds_at_the_end(workspace: Path, tmp_path: Path) -> None:
    events(workspace, lambda s: s.round(1, "2/2 sites"), lambda s: s.done())
    session = ScriptedSession(workspace, [("RUNNING", AuthorizationError("no")), (COMPLETED, [])])
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
    with pytest.raises(FedSuperError, match="mid-study"):
        follow(ScriptedSession(workspace, [("FINISHED:ABORTED", [])]), tmp_path / "run")
    assert not (tmp_path / "run" / "supermodel").exists()


def test_a_refused_job_is_one_line(workspace: Path, tmp_path: Path) -> None:
    session = ScriptedSession(workspace, [])

    def refuse(path: str) -> str:
        raise AuthorizationError("user not\nauthorized")

    session.submit_job = refuse
    with pytest.raises(FedSuperError, match=r"refused the job \(user not authorized\)"):
        follow(session, tmp_path / "run")
