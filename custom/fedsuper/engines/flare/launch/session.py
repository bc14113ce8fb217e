"""One job on a running NVFlare federation, through an admin's session: submit, follow, fetch.

Our own word counts before NVFlare's status: a study that is done is done, whatever became of its sites, and a job whose
server process is gone is dead, though NVFlare calls it running. No wait is without an end.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedsuper.engines.flare.launch.events import EVENTS_COMMAND, EVENTS_FILE, PAUSE_COMMAND, EventReader
from fedsuper.engines.flare.launch.link import Link, line_of
from fedsuper.engines.flare.launch.restarts import BrokenOffError, PausedError
from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_json, read_json

POLL = 1.0
GRACE = 15.0  # seconds for NVFlare to close a job whose work is done; sites that are gone would hold it for 15 minutes
DEAD_AFTER = 20.0  # seconds for which NVFlare may call a job running that nobody answers for any more
STARTING = 240.0  # seconds from then on that a job is called running until it first answers, on a busy machine
LOOK_AROUND = 5.0  # seconds between two looks at who is connected
FORGOTTEN = "FINISHED:FORGOTTEN"  # beside NVFlare's own words: the server has no such job
JOB_FILE = "job.json"  # in a run's folder: the job that is at work for it


def run_job(link: Link, job: Path, folder: Path, reader: EventReader) -> Path:
    """Submit `job`, follow it, bring its results to `folder/job`; the folder the server worked in, as it is here."""
    token = uuid.uuid4().hex  # a submission that is sent again after a lost connection is the same one
    try:
        job_id = str(link.ask(lambda session: session.submit_job(str(job), submit_token=token)))
    except FedSuperError:
        raise
    except Exception as error:
        raise FedSuperError(f"the server refused the job ({line_of(error)}); check the admin's rights") from None
    atomic_write_json(folder / JOB_FILE, {"job": job_id})
    reader.progress.note(f"submitted as job {job_id}")
    return follow_job(link, job_id, folder, reader)


def running_job(link: Link, folder: Path) -> str | None:
    """The job that is still at work for a run's folder, if any."""
    path = folder / JOB_FILE
    if not path.exists():
        return None
    job_id = str(read_json(path, "remove it and resume").get("job"))
    return job_id if not Following(link, job_id).ended(patience=3 * DEAD_AFTER) else None


def stop_job(link: Link, job_id: str, seconds: float = 60.0) -> None:
    """Abort a job, and wait until it has ended."""
    following = Following(link, job_id)
    following.abort()
    deadline = time.monotonic() + seconds
    while not following.finished() and time.monotonic() < deadline:
        time.sleep(POLL)


def follow_job(link: Link, job_id: str, folder: Path, reader: EventReader) -> Path:
    """Show a job's events until it has ended and bring its results home; an early end is one error."""
    following = Following(link, job_id, reader)
    following.follow()
    results = following.download(folder)
    if results is not None:
        reader.read_file(results / EVENTS_FILE)
    (folder / JOB_FILE).unlink(missing_ok=True)
    if reader.done and results is not None:
        return results
    if reader.done:
        raise FedSuperError(f"job {job_id} is done, but its results cannot be fetched; the server keeps the super "
                            f"model in its state folder, and `nvflare job download {job_id}` tries again")
    if reader.paused:
        raise PausedError(f"job {job_id} paused after round {reader.round}", "go on with --resume")
    where = f"see the logs in {results or 'the server'} and at the sites"
    if following.dead:
        raise BrokenOffError(f"job {job_id}: its process on the server is gone", f"{where}; then go on with --resume")
    if reader.failure and not reader.broken:
        raise FedSuperError(reader.failure)
    if reader.failure:
        raise BrokenOffError(reader.failure, f"{where}; then go on with --resume")
    if following.status == "FINISHED:ABORTED":
        raise FedSuperError(f"job {job_id} was aborted by an admin; go on with --resume")
    if reader.seen:
        raise BrokenOffError(f"job {job_id} ended as {following.status} in mid-study", f"{where}; go on with --resume")
    raise FedSuperError(f"job {job_id} ended as {following.status} before the study began; FedSuper must be installed "
                        "and on the allow-list of the server and of every site (poc_config/allow_fedsuper.py); "
                        f"{where}")


class Following:
    """One job as an admin sees it. `dead` tells that its server process was gone though NVFlare called it running."""

    def __init__(self, link: Link, job_id: str, reader: EventReader | None = None) -> None:
        self.link = link
        self.job_id = job_id
        self.reader = reader
        self.status = ""
        self.dead = False
        self._may_ask = True
        self._began = False
        self._unanswered: float | None = None  # since when nobody answers for a running job
        self._looked = time.monotonic()
        self._back: set[str] = set()
        self._fell_silent: dict[str, float] = {}

    def follow(self) -> None:
        """Until the job has ended, or its work has and NVFlare had its time to close it."""
        assert self.reader is not None
        patience = GRACE
        while not self.finished():
            self._hear()
            if self.reader.done or self.reader.failure or self.reader.paused:
                patience -= POLL
            patient = DEAD_AFTER if self._began else STARTING
            if self._unanswered is not None and time.monotonic() - self._unanswered > patient:
                self.dead = not self.reader.done
            if patience <= 0 or self.dead:
                stop_job(self.link, self.job_id)
                return
            time.sleep(POLL)

    def finished(self) -> bool:
        """Whether NVFlare says that the job has ended, or knows of none: a server that was set up anew, as a POC's is.
        """
        from nvflare.fuel.flare_api.api_spec import JobNotFound

        try:
            self.status = str(self.link.ask(lambda session: session.get_job_status(self.job_id)))
        except JobNotFound:
            self.status = FORGOTTEN
        return self.status.startswith("FINISHED")

    def ended(self, patience: float) -> bool:
        """Whether the job has ended, or nobody answers for it though NVFlare calls it running."""
        deadline = time.monotonic() + patience
        while not self.finished():
            if self._answer() is not None or self.status != "RUNNING":
                return False
            if time.monotonic() > deadline:
                return True
            time.sleep(POLL)
        return True

    def told(self) -> dict[str, Any] | None:
        """Everything the job has said so far; None where nobody answers for it."""
        return self._answer()

    def abort(self) -> None:
        """Ask NVFlare to end the job; one that has ended by itself is as good."""
        self._try(lambda session: session.abort_job(self.job_id))

    def download(self, folder: Path) -> Path | None:
        """The job's workspace on the server, brought here; None where there is none to be had."""
        location = self._try(lambda session: session.download_job_result(self.job_id, str(folder / "job")))
        workspace = Path(str(location)) / "workspace"
        return workspace if location and workspace.is_dir() else None

    def _hear(self) -> None:
        """Show what the server's process says; where a site is back that this job lacks, ask for a new one."""
        assert self.reader is not None
        heard = self._answer(self.reader.seen)
        if heard is None:
            if self.status == "RUNNING" and self._may_ask and self._unanswered is None:
                self._unanswered = time.monotonic()
            return
        self._unanswered, self._began = None, True
        self.reader.show(heard["lines"])
        if time.monotonic() - self._looked > LOOK_AROUND:
            self._looked = time.monotonic()
            self._look_for(set(heard.get("silent", [])), heard.get("sites"))

    def _look_for(self, silent: set[str], sites: list[str] | None) -> None:
        """A site that is silent in this job, and that the server hears of twice since it fell silent, was started anew.
        Where others than the study's `sites` may join, a stranger that is heard of twice is waited for once.
        """
        assert self.reader is not None
        heard = self._last_heard() if silent or sites is not None else {}
        silent |= set(heard) - set(sites) - self.reader.invited if sites is not None else set()
        self._fell_silent = {site: self._fell_silent.get(site, heard.get(site, 0.0)) for site in silent}
        back = {site for site, since in self._fell_silent.items() if heard.get(site, 0.0) > since}
        if back & self._back and not self.reader.paused:
            names = ", ".join(sorted(back & self._back))
            known = sites is None or back & self._back <= set(sites)
            self.reader.progress.note(f"{names}: is connected{' again' if known else ''}; it joins when this round has "
                                      "ended")
            self.reader.invited |= back & self._back
            self._try(lambda session: session.do_app_command(self.job_id, PAUSE_COMMAND, {}))
            self._looked = time.monotonic() + 60.0
        self._back = back

    def connected(self, fresh: float = 15.0) -> set[str]:
        """The sites that the server has heard of within the last `fresh` seconds."""
        heard = self._last_heard()
        newest = max(heard.values(), default=0.0)
        return {site for site, when in heard.items() if newest - when < fresh}

    def _last_heard(self) -> dict[str, float]:
        """When the server last heard of each site, by the server's clock."""
        info: Any = self._try(lambda session: session.get_system_info())
        return {str(client.name): float(client.last_connect_time) for client in info.client_info} if info else {}

    def _answer(self, seen: int = 0) -> dict[str, Any] | None:
        """What the job's own process answers; None where nobody answers for it."""
        from nvflare.fuel.flare_api.api_spec import AuthorizationError

        if not self._may_ask:
            return None
        try:
            return dict(self.link.ask(lambda s: s.do_app_command(self.job_id, EVENTS_COMMAND, {"seen": seen})))
        except FedSuperError:
            raise
        except AuthorizationError:
            self._may_ask = False
            if self.reader is not None:
                self.reader.progress.note("this admin lacks the right app_command on the server: rounds are shown at "
                                          "the end")
        except Exception:  # not started yet, just ended, or dead: the API has a type for each and more
            return None
        return None

    def _try(self, call: Callable[[Any], Any]) -> Any:
        """What the server gives, or None; a lost connection is still waited out."""
        try:
            return self.link.ask(call)
        except FedSuperError:
            raise
        except Exception:  # the API raises a dozen unrelated types
            return None
