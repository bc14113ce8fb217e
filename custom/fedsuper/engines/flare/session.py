"""One job on a running NVFlare federation, through an admin's session: submit, follow, fetch."""

from __future__ import annotations

import contextlib
import io
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.flare.controller import EVENTS_COMMAND, EVENTS_FILE, SUPER_MODEL
from fedsuper.engines.flare.events import EventReader
from fedsuper.errors import FedSuperError
from fedsuper.inference.artefact import load_super_model, save_super_model

if TYPE_CHECKING:
    from nvflare.fuel.flare_api.flare_api import Session

POLL = 1.0
COMPLETED = "FINISHED:COMPLETED"


def open_session(kit: Path, timeout: float = 20.0) -> Session:
    """Log in with the start-up kit of an admin: the folder, named after the admin, that holds `startup/`."""
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    kit = Path(kit).absolute()
    if not (kit / "startup" / "fed_admin.json").is_file():
        raise FedSuperError(f"{kit}: is not an admin's start-up kit (no startup/fed_admin.json); give the folder that "
                            "provisioning made for the admin who submits")
    # Without any handler Python prints NVFlare's connection warnings; what matters of them is in the error below.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it announces itself
            return new_secure_session(kit.name, str(kit), timeout=timeout)
    except Exception as error:  # the API raises a dozen unrelated types
        raise FedSuperError(f"{kit}: cannot log in to the server ({_line(error)}); is it running, and is this kit one "
                            "of its own?") from None


def run_job(session: Session, job: Path, folder: Path, reader: EventReader) -> SuperModel:
    """Submit `job`, show its events, bring its results to `folder/job` and the super model to `folder/supermodel`."""
    try:
        job_id = session.submit_job(str(job))
    except Exception as error:
        raise FedSuperError(f"the server refused the job ({_line(error)}); check the admin's rights") from None
    reader.progress.note(f"submitted as job {job_id}")
    status = _follow(session, job_id, reader)
    results = _download(session, job_id, folder)
    reader.read_file(results / EVENTS_FILE)
    if not reader.done or status != COMPLETED:
        raise FedSuperError(reader.failure or _unexplained(job_id, status, results, reader.seen > 0))
    super_model = load_super_model(results / SUPER_MODEL)
    save_super_model(super_model, folder / SUPER_MODEL)
    return super_model


def _follow(session: Session, job_id: str, reader: EventReader) -> str:
    """Show the job's events until it ends; its last status."""
    from nvflare.fuel.flare_api.api_spec import AuthorizationError, InternalError, JobNotRunning, NoReply

    may_ask = True
    while True:
        status = str(session.get_job_status(job_id))
        if status.startswith("FINISHED"):
            return status
        try:
            if may_ask:
                reader.show(session.do_app_command(job_id, EVENTS_COMMAND, {"seen": reader.seen})["lines"])
        except (JobNotRunning, NoReply, InternalError):  # not started yet, or just ended
            pass
        except AuthorizationError:
            may_ask = False
            reader.progress.note("this admin lacks the right app_command on the server: rounds are shown at the end")
        time.sleep(POLL)


def _download(session: Session, job_id: str, folder: Path) -> Path:
    """The job's workspace on the server, brought here."""
    location = session.download_job_result(job_id, str(folder / "job"))
    return Path(location) / "workspace"


def _unexplained(job_id: str, status: str, results: Path, began: bool) -> str:
    """What can be said of a job that ended without a word of its own."""
    logs = f"see the logs in {results} and at the sites"
    if began:
        return f"job {job_id} ended as {status} in mid-study; {logs}"
    return (f"job {job_id} ended as {status} before the study began; FedSuper must be installed and on the allow-list "
            f"of the server and of every site (poc_config/allow_fedsuper.py); {logs}")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
