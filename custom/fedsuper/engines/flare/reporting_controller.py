"""What FedSuper's server workflows share: events that whoever waits can read, and one line for every problem."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import ClientTask
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.workflows.model_controller import ModelController

from fedsuper.engines.flare import settings
from fedsuper.engines.flare.contact.doorbell import WORK
from fedsuper.engines.flare.contact.exchange import CHECK_PERIOD, AbortedError
from fedsuper.engines.flare.contact.hearts import BEAT, GOODBYE, Hearts, simulated
from fedsuper.engines.flare.launch.events import (
    EVENTS_COMMAND,
    EVENTS_FILE,
    PAUSE_COMMAND,
    ServerProgress,
)
from fedsuper.errors import FedSuperError, explain_os_error
from fedsuper.federation.server_loop import PausedError

LEAVE_TAKING = 5.0  # seconds for the sites of an aborted job to say goodbye
LAST_WORDS = 5.0


class ReportingController(ModelController):
    """A workflow is its `work`; NVFlare's model persistor, which holds one model, is not used."""

    def __init__(self) -> None:
        # One task per site: a site's failure is judged by us, site by site, not by NVFlare task by task.
        super().__init__(persistor_id="", ignore_result_error=True, task_check_period=CHECK_PERIOD)
        self.progress: ServerProgress | None = None
        self.hearts = Hearts()
        self.pausing = threading.Event()
        self._fetched = 0  # events that whoever waits has seen
        self._asked_at: float | None = None

    @property
    def title(self) -> str:
        """How the workflow is called on a terminal."""
        raise TypeError(f"{type(self).__name__} must define title")

    def work(self, progress: ServerProgress, run_folder: Path, known: settings.Settings) -> None:
        """The whole job; `known` is what this machine knows of itself."""
        raise TypeError(f"{type(self).__name__} must define work")

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Let an admin fetch the events while the job runs, and the sites show that they live."""
        super().start_controller(fl_ctx)
        self.engine.register_app_command(EVENTS_COMMAND, self._events_since)
        self.engine.register_app_command(PAUSE_COMMAND, self._pause)
        if not simulated(fl_ctx):
            self.hearts.listening = True
            for topic in (BEAT, GOODBYE):
                self.engine.register_aux_message_handler(topic, self.hearts.hear)

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Sites whose questions are open hear at once that the job is over."""
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.ABOUT_TO_END_RUN:
            WORK.ring()

    def _prepare_task_data(self, client_task: ClientTask, fl_ctx: FLContext) -> None:
        """Spare the simulator NVFlare's copy of every tensor, made in case several sites get the same task and one of
        them something else: here each task is for one site.
        """
        super()._prepare_task_data(client_task, fl_ctx)
        if simulated(fl_ctx):
            client_task.task._broadcast_data = client_task.task.data

    def run(self) -> None:
        """The work; a problem is written down in one line before NVFlare ends the job."""
        run_folder = Path(self.get_run_dir())
        events_file = settings.from_environment(settings.EVENTS) or run_folder / EVENTS_FILE
        self.progress = progress = ServerProgress(self.title, self.info, events_file)
        try:
            known = settings.read_settings(Path(self.engine.get_workspace().get_site_config_dir()))
            self.work(progress, run_folder, known)
            progress.done()
            self._wait_for_reader()
        except PausedError:
            progress.paused()
            self._wait_for_reader()
        except AbortedError:
            self._explain_abort(progress)
        except FedSuperError as problem:
            progress.failed(str(problem))
            raise
        except Exception as error:
            told = explain_os_error(error) if isinstance(error, OSError) else None
            if told is not None:
                progress.failed(f"the server, {told}")
                self._wait_for_reader()  # a full disk does not keep its last words
                raise
            text = " ".join(str(error).split())[:200]
            progress.failed(f"the server failed ({type(error).__name__}: {text}); see its log")
            raise

    def silent_sites(self) -> list[str]:
        """Sites that the work counts on and that give no sign of life."""
        return []

    def joinable_sites(self) -> list[str] | None:
        """The sites that take part, where others may join them; None where nobody may."""
        return None

    def _explain_abort(self, progress: ServerProgress) -> None:
        """NVFlare ends a job as a whole where one site's process died; those that lived took their leave."""
        died = self.hearts.without_goodbye([client.name for client in self.engine.get_clients()], LEAVE_TAKING)
        if died:
            progress.failed(f"{', '.join(died)}: its job process died, and with it the job", broken=True)
        else:
            progress.failed("the job was aborted, by an admin or because no site's process was left; see its log")

    def _events_since(self, topic: str, data: dict[str, Any] | None, fl_ctx: FLContext) -> dict[str, Any]:
        seen = int((data or {}).get("seen", 0))
        lines = self.progress.since(seen) if self.progress else []
        self._fetched, self._asked_at = seen + len(lines), time.monotonic()
        return {"lines": lines, "silent": self.silent_sites(), "sites": self.joinable_sites()}

    def _pause(self, topic: str, data: dict[str, Any] | None, fl_ctx: FLContext) -> dict[str, Any]:
        self.pausing.set()
        return {}

    def _wait_for_reader(self) -> None:
        """Give whoever follows the job a moment to read its last words; nothing else of it outlives its process."""
        deadline = time.monotonic() + LAST_WORDS
        while self._asked_at is not None and self.progress is not None and time.monotonic() < deadline:
            if not self.progress.since(self._fetched):
                return
            time.sleep(CHECK_PERIOD)
