"""A site on NVFlare: every task becomes one call of the engine-neutral `SiteWorker`."""

from __future__ import annotations

import os
from pathlib import Path

from nvflare.apis.executor import Executor
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

from fedsuper.config import parse_study
from fedsuper.engines.flare import settings
from fedsuper.engines.flare.wire import pack, pack_failure, unpack
from fedsuper.engines.messages import Message, SiteFailure
from fedsuper.engines.site import SiteWorker
from fedsuper.errors import FedSuperError


class FedSuperExecutor(Executor):
    """Answers the server's tasks. Whatever goes wrong at the site goes back as a reason; the process lives on.

    `tracker` is the id of the component that streams metrics to the server; without such a component none are streamed.
    """

    def __init__(self, tracker: str = "tracker") -> None:
        super().__init__()
        self.tracker = tracker
        self._worker: SiteWorker | None = None

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """One task of the server, answered with a message or with the reason why not."""
        try:
            message = unpack(FLModelUtils.from_shareable(shareable))
            if isinstance(message, SiteFailure):
                raise FedSuperError(message.reason)
            reply = self._worker_for(message, fl_ctx).handle(task_name, message)
            self._track(message, reply, fl_ctx)
            answer = pack(reply)
        except FedSuperError as problem:
            self.log_warning(fl_ctx, str(problem))
            answer = pack_failure(SiteFailure(str(problem)))
        except Exception as error:  # a crash of one round must not take the site out of the next
            self.log_exception(fl_ctx, f"{task_name} failed")
            text = " ".join(str(error).split())[:200]
            answer = pack_failure(SiteFailure(f"{type(error).__name__}: {text}; the site's log has the details"))
        return FLModelUtils.to_shareable(answer)

    def _worker_for(self, message: Message, fl_ctx: FLContext) -> SiteWorker:
        """The worker of this process: it keeps prepared samples in memory for as long as the process lives."""
        if self._worker is None:
            site = fl_ctx.get_identity_name()
            workspace = fl_ctx.get_engine().get_workspace()
            known = settings.read_settings(Path(workspace.get_site_config_dir()))
            data_root = settings.data_root_of(site, known)
            study = parse_study(message.info["study"])
            run_folder = Path(workspace.get_run_dir(fl_ctx.get_job_id()))
            device = settings.device_of(site, known)
            if device:
                os.environ[settings.DEVICE] = device
            self._worker = SiteWorker(site, data_root, settings.state_folder_of(site, known, study, run_folder))
        return self._worker

    def _track(self, message: Message, reply: Message, fl_ctx: FLContext) -> None:
        """Stream the round's metrics to the server's tracking (TensorBoard)."""
        tracker = fl_ctx.get_engine().get_component(self.tracker)
        if tracker is not None:
            for name, value in reply.info.get("metrics", {}).items():
                tracker.add_scalar(name, value, global_step=message.info["round"] + 1)
