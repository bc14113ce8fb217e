"""What FedSuper's site components share: a message in, a message out, and a reason for everything that goes wrong."""

from __future__ import annotations

import os
from pathlib import Path

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

from fedsuper.engines.flare import settings
from fedsuper.engines.flare.contact.hearts import Heart, simulated
from fedsuper.engines.flare.contact.memory import Tidy
from fedsuper.engines.flare.wire import pack, pack_failure, unpack
from fedsuper.errors import FedSuperError
from fedsuper.federation.messages import Message, SiteFailure
from fedsuper.federation.outlet.redaction import redacted
from fedsuper.federation.outlet.release import Outlet


def placed(fl_ctx: FLContext) -> tuple[str, settings.Settings, Path]:
    """The site whose process this is, its site file and the job's folder; its device, where it has one, is set."""
    site = fl_ctx.get_identity_name()
    workspace = fl_ctx.get_engine().get_workspace()
    known = settings.read_settings(Path(workspace.get_site_config_dir()))
    device = settings.device_of(site, known)
    if device:
        os.environ[settings.DEVICE] = device
    return site, known, Path(workspace.get_run_dir(fl_ctx.get_job_id()))


def outlet_of(fl_ctx: FLContext) -> Outlet:
    """The outlet of the site whose process this is, by its site file."""
    workspace = fl_ctx.get_engine().get_workspace()
    site = fl_ctx.get_identity_name()
    known = settings.read_settings(Path(workspace.get_site_config_dir()))
    audit = settings.audit_file_of(site, known, Path(workspace.get_root_dir()))
    return Outlet(site, known.rules(fl_ctx.get_job_id()), audit)


class AnsweringExecutor(Executor):
    """Whatever goes wrong at the site goes back as one line; the process lives on for the next task."""

    def __init__(self) -> None:
        super().__init__()
        self._heart: Heart | None = None
        self._tidy = Tidy()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Show the server that this site lives, for as long as the job does."""
        if event_type == EventType.START_RUN and self._heart is None and not simulated(fl_ctx):
            self._heart = Heart(fl_ctx.get_engine())
        elif event_type == EventType.END_RUN:
            self.ended()
            if self._heart is not None:
                self._heart.stop()
                self._heart = None

    def ended(self) -> None:
        """The job is over: let go of what was kept for it."""

    def answer(self, task: str, message: Message, fl_ctx: FLContext, abort_signal: Signal) -> Message:
        """The site's reply to one task."""
        raise TypeError(f"{type(self).__name__} must define answer")

    def own_folders(self, fl_ctx: FLContext) -> list[Path]:
        """The site's folders, whose names and files an error line must not tell; none where it does not know them."""
        return []

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """One task of the server, answered with a message or with the reason why not."""
        self._tidy()  # of the tasks before
        try:
            message = unpack(FLModelUtils.from_shareable(shareable))
            if isinstance(message, SiteFailure):
                raise FedSuperError(message.reason)
            answer = pack(self.answer(task_name, message, fl_ctx, abort_signal))
        except FedSuperError as problem:
            self.log_warning(fl_ctx, str(problem))
            answer = pack_failure(SiteFailure(redacted(problem, self.own_folders(fl_ctx))))
        except Exception as error:  # a crash of one task must not take the site out of the next
            self.log_exception(fl_ctx, f"{task_name} failed")
            answer = pack_failure(SiteFailure(f"{type(error).__name__}; the site's log has the details"))
        return FLModelUtils.to_shareable(answer)
