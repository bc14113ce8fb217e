"""A site that trains, on NVFlare: every task becomes one call of the engine-neutral `SiteWorker`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nvflare.apis.fl_context import FLContext
from nvflare.apis.signal import Signal

from fedsuper.config import Study
from fedsuper.config.reading import parse_study
from fedsuper.engines.flare import settings
from fedsuper.engines.flare.answering_executor import AnsweringExecutor, outlet_of, placed
from fedsuper.engines.flare.contact.hearts import simulated
from fedsuper.engines.flare.contact.places import place
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import Message
from fedsuper.federation.site_process import SiteProcess
from fedsuper.federation.site_worker import SiteWorker
from fedsuper.methods import create_method

Models = dict[str, dict[str, Any]]
WITHIN = 0.95  # of the round's time: a site that hangs still tells so before the server gives up on it


def declared_models(study: Study) -> Models:
    """The models a study's method trains, as a job names them: kind, who keeps it, whether each site has one."""
    roles = create_method(study).roles()
    return {role.name: {"kind": role.kind, "holder": role.holder, "per_site": role.per_site} for role in roles}


class TrainingExecutor(AnsweringExecutor):
    """Answers the tasks of a study.

    `method` and `models` say what this job trains, so that a site can read it before it lets the job run; the site
    refuses a server whose study trains anything else. `tracker` is the id of the component that streams metrics to
    the server; without such a component none are streamed.
    """

    def __init__(self, method: str, models: Models, tracker: str | None = None) -> None:
        super().__init__()
        self.method = method
        self.models = models
        self.tracker = tracker
        self._worker: SiteWorker | None = None
        self._streams = False
        self._process: SiteProcess | None = None

    def answer(self, task: str, message: Message, fl_ctx: FLContext, abort_signal: Signal) -> Message:
        """Let the worker answer, and stream the round's metrics."""
        study = parse_study(message.info["study"])
        if self._worker is None:
            self._worker = self._prepare(study, fl_ctx)
        if self._process is not None:
            deadline = WITHIN * study.federation.round_timeout
            reply = self._process.handle(task, message, deadline, lambda: bool(abort_signal.triggered))
        else:
            with place(settings.from_environment(settings.SHARED), settings.places()):
                reply = self._worker.handle(task, message)
        self._track(message, reply, fl_ctx)
        return reply

    def own_folders(self, fl_ctx: FLContext) -> list[Path]:
        return [] if self._worker is None else [*self._worker.data.places(), self._worker.state_folder]

    def ended(self) -> None:
        if self._process is not None:
            self._process.end()

    def _prepare(self, study: Study, fl_ctx: FLContext) -> SiteWorker:
        """The worker of this job, which keeps prepared samples in memory. Outside the simulator, where a dead process
        would end the whole job, it works in a child."""
        self._check(study)
        site, known, run_folder = placed(fl_ctx)
        state = settings.state_folder_of(site, known, study, run_folder)
        outlet = outlet_of(fl_ctx)
        self._streams = not known.refuse_streaming
        worker = SiteWorker(site, settings.data_root_of(site, known), state, outlet.rules, outlet.audit)
        if not simulated(fl_ctx):
            self._process = SiteProcess(worker, run_folder)
        return worker

    def _check(self, study: Study) -> None:
        """The job as this site could read it is what the server now asks for, or nothing is trained."""
        asked = declared_models(study)
        if (self.method, self.models) == (study.method, asked):
            return
        differing = sorted(name for name in self.models.keys() | asked if self.models.get(name) != asked.get(name))
        raise FedSuperError(
            f"the job's executor trains {self.method} ({', '.join(self.models)}), the server's study {study.method} "
            f"({', '.join(asked)}); they differ in {', '.join(differing) or 'the method'}; "
            "write the job anew with `fedsuper job`"
        )

    def _track(self, message: Message, reply: Message, fl_ctx: FLContext) -> None:
        """Stream the round's metrics to the server's tracking."""
        tracker = fl_ctx.get_engine().get_component(self.tracker) if self.tracker and self._streams else None
        if tracker is not None:
            for name, value in reply.info.get("metrics", {}).items():
                tracker.add_scalar(name, value, global_step=message.info["round"] + 1)
