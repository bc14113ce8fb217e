"""A submittable NVFlare job folder for a study: configuration only, no code, no paths, no list of sites."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fedsuper.config import Study, parse_study
from fedsuper.engines.messages import TASKS
from fedsuper.files import atomic_write_json, atomic_write_text
from fedsuper.methods import METHODS, method_class

APP = "app"
# The study of the jobs in the repository: ends in minutes, also where every task is a process of its own.
TRIAL = {"rounds": 10, "image_size": 64, "model": {"channels": [16, 32, 64, 128]}, "optimizer": {"lr": 0.004}}
CONTROLLER = "fedsuper.engines.flare.controller.FedSuperController"
EXECUTOR = "fedsuper.engines.flare.executor.FedSuperExecutor"
TRACKER = "tracker"
ANALYTICS = "analytix_log_stats"  # the event NVFlare's trackers fire

CUSTOM_README = """This folder is empty on purpose.

NVFlare loads classes from outside its own allow-list only for jobs that carry a `custom` folder. FedSuper is installed
on the server and at every site (`pip install`), so nothing is copied here. Sites that do not let a job bring code put
`fedsuper.` on their allow-list instead and run the job without this folder: see docs/how-to/run-on-nvflare.md.
"""


def write_job(study: Study, out: Path, custom: bool = True, resume: bool = False) -> None:
    """Write the job; the same study gives the same bytes.

    `custom=False` leaves out the `custom` folder, for sites with FedSuper on their allow-list; `resume` goes on from
    the server's last checkpoint of this study.
    """
    out = Path(out)
    atomic_write_json(out / "meta.json", _meta(study))
    atomic_write_json(out / APP / "config" / "config_fed_server.json", _server(study, resume))
    atomic_write_json(out / APP / "config" / "config_fed_client.json", _client())
    if custom:
        atomic_write_text(out / APP / "custom" / "README.md", CUSTOM_README)


def write_all_jobs(folder: Path) -> list[str]:
    """One job per method, each with a trial study; pooled training moves images and is no job."""
    names = [name for name in METHODS if not method_class(name).pooled]
    for name in names:
        write_job(parse_study({"method": name, **TRIAL}), Path(folder) / name)
    return names


def _meta(study: Study) -> dict[str, Any]:
    return {
        "name": f"fedsuper-{study.method}",
        "resource_spec": {},
        "min_clients": study.federation.min_sites,
        "deploy_map": {APP: ["@ALL"]},
    }


def _server(study: Study, resume: bool) -> dict[str, Any]:
    return {
        "format_version": 2,
        # Sites ask for work this often (seconds): the floor of a round.
        "server": {"task_request_interval": 0.2},
        "task_data_filters": [],
        "task_result_filters": [],
        "workflows": [{"id": "federation", "path": CONTROLLER, "args": {"study": _settings(study), "resume": resume}}],
        "components": [
            _tensors(),
            {"id": "tensorboard", "path": "nvflare.app_opt.tracking.tb.tb_receiver.TBAnalyticsReceiver", "args": {}},
        ],
    }


def _settings(study: Study) -> dict[str, Any]:
    """The keys in which the study differs from the defaults; the server checks that all run the same version."""
    defaults = parse_study({"method": study.method}).to_json()
    return {key: value for key, value in study.to_json().items() if key == "method" or value != defaults.get(key)}


def _client() -> dict[str, Any]:
    return {
        "format_version": 2,
        "executors": [{"tasks": list(TASKS), "executor": {"path": EXECUTOR, "args": {"tracker": TRACKER}}}],
        "task_data_filters": [],
        "task_result_filters": [],
        "components": [
            _tensors(),
            {"id": TRACKER, "path": "nvflare.app_opt.tracking.tb.tb_writer.TBWriter", "args": {}},
            {
                "id": "streamer",
                "path": "nvflare.app_common.widgets.convert_to_fed_event.ConvertToFedEvent",
                "args": {"events_to_convert": [ANALYTICS]},
            },
        ],
    }


def _tensors() -> dict[str, Any]:
    """torch tensors on the wire, as they are."""
    return {
        "id": "tensors",
        "path": "nvflare.app_common.widgets.decomposer_reg.DecomposerRegister",
        "args": {"classes": ["nvflare.app_opt.pt.decomposers.TensorDecomposer"]},
    }


if __name__ == "__main__":  # python -m fedsuper.engines.flare.job jobs
    print("\n".join(write_all_jobs(Path(sys.argv[1]))))
