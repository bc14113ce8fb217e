"""The server's way to its sites through NVFlare's task protocol."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType

from fedsuper.engines.flare.wire import pack, unpack
from fedsuper.engines.messages import TRAIN, Message, SiteFailure

if TYPE_CHECKING:
    from nvflare.app_common.workflows.model_controller import ModelController

CHECK_PERIOD = 0.1


class AbortedError(Exception):
    """NVFlare ended the job while the server was waiting for its sites."""


class FlareExchange:
    """One task per site and call: only so does each site get its own models in the same round."""

    def __init__(self, controller: ModelController) -> None:
        self.controller = controller

    @property
    def sites(self) -> list[str]:
        return [client.name for client in self.controller.engine.get_clients() if self._connected(client.name)]

    def __call__(self, task: str, messages: Mapping[str, Message], timeout: float) -> dict[str, Message | SiteFailure]:
        answers: dict[str, FLModel] = {}

        def answered(model: FLModel) -> None:
            answers[model.meta["client_name"]] = model

        if task == TRAIN:
            self._announce(AppEventType.ROUND_STARTED, messages)
        reachable = set(self.sites)
        started = time.monotonic()
        for site, message in messages.items():
            if site in reachable:
                model = pack(message, message.info.get("round"))
                self.controller.send_model(task, model, targets=[site], timeout=math.ceil(timeout), callback=answered)
        while self.controller.get_num_standing_tasks():
            if self.controller.abort_signal.triggered:
                raise AbortedError
            time.sleep(CHECK_PERIOD)
        overdue = time.monotonic() - started >= timeout
        if task == TRAIN:
            self._announce(AppEventType.ROUND_DONE, messages)
        return {
            site: _read(answers[site]) if site in answers else self._silence(site, site in reachable, overdue, timeout)
            for site in messages
        }

    def _announce(self, event: str, messages: Mapping[str, Message]) -> None:
        """Tell NVFlare's widgets where the study is."""
        with self.controller.engine.new_context() as context:
            number = next(iter(messages.values())).info["round"]
            context.set_prop(AppConstants.CURRENT_ROUND, number, private=True, sticky=True)
            self.controller.fire_event(event, context)

    def _connected(self, site: str) -> bool:
        return self.controller.get_client_disconnect_time(site) is None

    def _silence(self, site: str, reached: bool, overdue: bool, timeout: float) -> SiteFailure:
        """Why a site gave no answer."""
        if not reached or not self._connected(site):
            return SiteFailure("it is not connected")
        if overdue:
            return SiteFailure(f"no answer within {timeout:g} s")
        return SiteFailure("its answer was refused on the way; see the site's log")


def _read(model: FLModel) -> Message | SiteFailure:
    try:
        return unpack(model)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:  # one site's nonsense must not end the study
        return SiteFailure(f"its answer cannot be read ({type(error).__name__}: {error})")
