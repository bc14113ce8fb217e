"""Code that a test's job brings along in its `custom` folder: a meter at the server and a saboteur at the sites."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.fuel.f3.stats_pool import StatsPoolManager
from nvflare.widgets.widget import Widget

from fedsuper.engines.flare.executor import TrainingExecutor
from fedsuper.federation.messages import TRAIN


class Meter(Widget):
    """Writes down NVFlare's own byte counts of the server's cell when a round starts and when it is done."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type in (AppEventType.ROUND_STARTED, AppEventType.ROUND_DONE):
            number = fl_ctx.get_prop(AppConstants.CURRENT_ROUND)
            path = Path(os.environ["FEDSUPER_OUT"]).parent / f"{event_type}-{number}.json"
            path.write_text(json.dumps(StatsPoolManager.to_dict()))


class Saboteur(TrainingExecutor):
    """Round 2: site-1 crashes. Round 3: site-2 sends NaN past its own checks."""

    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        site, number = fl_ctx.get_identity_name(), shareable.get_header(AppConstants.CURRENT_ROUND)
        if (task_name, site, number) == (TRAIN, "site-1", 1):
            self._worker.handle = _crash
        answer = super().execute(task_name, shareable, fl_ctx, abort_signal)
        if (task_name, site, number) == (TRAIN, "site-1", 1):
            del self._worker.handle
        if (task_name, site, number) == (TRAIN, "site-2", 2):
            model = FLModelUtils.from_shareable(answer)
            first = next(key for key in model.params if key.startswith("personal/"))
            model.params[first] = torch.full_like(model.params[first], float("nan"))
            answer = FLModelUtils.to_shareable(model)
        return answer


def _crash(task, message):
    raise OSError("the disk with the images is gone")
