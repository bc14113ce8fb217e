"""The server on NVFlare: one controller that drives any method through the engine-neutral `Federation`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nvflare.apis.fl_context import FLContext
from nvflare.app_common.workflows.model_controller import ModelController

from fedsuper.config import parse_study
from fedsuper.engines.federation import Federation
from fedsuper.engines.flare import settings
from fedsuper.engines.flare.events import ServerProgress, lines_after, total_rounds
from fedsuper.engines.flare.exchange import CHECK_PERIOD, AbortedError, FlareExchange
from fedsuper.errors import FedSuperError
from fedsuper.inference.artefact import save_super_model

EVENTS_FILE = "fedsuper-events.jsonl"
SUPER_MODEL = "supermodel"
EVENTS_COMMAND = "fedsuper.events"


class FedSuperController(ModelController):
    """Runs one study and leaves the super model in the job's run folder on the server.

    `study` is the study as plain JSON. NVFlare's model persistor holds one model, a study has several: the federation
    keeps its own checkpoints, and `resume` goes on from the last one.
    """

    def __init__(self, study: dict[str, Any], resume: bool = False) -> None:
        # One task per site: a site's failure is judged here, against min_sites, not by NVFlare task by task.
        super().__init__(persistor_id="", ignore_result_error=True, task_check_period=CHECK_PERIOD)
        self.study = study
        self.resume = resume
        self.events_file: Path | None = None

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Let an admin fetch the study's events while the job runs."""
        super().start_controller(fl_ctx)
        self.engine.register_app_command(EVENTS_COMMAND, self._events_since)

    def run(self) -> None:
        """The whole study; a problem is written down in one line before NVFlare ends the job."""
        run_folder = Path(self.get_run_dir())
        self.events_file = settings.from_environment(settings.EVENTS) or run_folder / EVENTS_FILE
        progress = ServerProgress(str(self.study.get("method", "study")), self.info, self.events_file)
        try:
            self._run(progress, run_folder)
        except AbortedError:
            progress.failed("the job was aborted, by an admin or because no site's process was left; see its log")
        except FedSuperError as problem:
            progress.failed(str(problem))
            raise
        except Exception as error:
            text = " ".join(str(error).split())[:200]
            progress.failed(f"the server failed ({type(error).__name__}: {text}); see its log")
            raise

    def _run(self, progress: ServerProgress, run_folder: Path) -> None:
        study = parse_study(self.study)
        progress.total = total_rounds(study)
        local_folder = Path(self.engine.get_workspace().get_site_config_dir())
        state = settings.server_state_folder(settings.read_settings(local_folder), study, run_folder)
        super_model = Federation(study, FlareExchange(self), state, progress).run(self.resume)
        save_super_model(super_model, run_folder / SUPER_MODEL)
        out = settings.from_environment(settings.OUT)
        if out is not None:
            save_super_model(super_model, out)
        progress.done()

    def _events_since(self, topic: str, data: dict[str, Any] | None, fl_ctx: FLContext) -> dict[str, Any]:
        return {"lines": lines_after(self.events_file, int((data or {}).get("seen", 0))) if self.events_file else []}
