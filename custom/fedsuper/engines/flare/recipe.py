"""A study as an NVFlare recipe: what runs, apart from where.

    recipe = FedSuperRecipe(read_study(Path("study.yaml")))
    run = recipe.execute(SimEnv(clients=["site-1", "site-2"]))      # or PocEnv(...), or ProdEnv(...)

The job holds configuration only: no code, no path, no list of sites. Server and sites have FedSuper installed and find
their data by what they know of themselves (`settings`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nvflare.app_common.widgets.convert_to_fed_event import ConvertToFedEvent
from nvflare.app_common.widgets.streaming import AnalyticsReceiver
from nvflare.app_opt.tracking.tb.tb_writer import TBWriter
from nvflare.job_config.api import FedJob
from nvflare.recipe import ProdEnv
from nvflare.recipe.spec import ExecEnv, Recipe

import fedsuper
from fedsuper.config import Study, TrackingSection
from fedsuper.config.reading import parse_study
from fedsuper.engines.flare.controller import SuperModelController
from fedsuper.engines.flare.executor import TrainingExecutor, declared_models
from fedsuper.errors import FedSuperError
from fedsuper.federation.checkpoints import Resume
from fedsuper.federation.messages import TASKS
from fedsuper.methods import method_knobs

TRACKER = "tracker"
ANALYTICS = "analytix_log_stats"  # the event NVFlare's trackers fire
POLL_SECONDS = 0.2  # sites ask the server for work this often: the floor of a round
CODE_MARK = Path(__file__).parent / "no_code" / "README.md"
# Sections of a study that every reader of a job wants to see, whether they differ from the defaults or not.
SHOWN = ("rounds", "model", "optimizer")


class SuperModelJob(Recipe):
    """What FedSuper's jobs share: one server component, one site component, and the mark where it is needed.

    NVFlare loads classes from outside its own allow-list only for a job with a `custom` folder; where the machines
    have FedSuper on their allow-lists (production, `fedsuper run --engine poc`) the job must not carry one.
    """

    def __init__(self, name: str, min_sites: int, gpus: int) -> None:
        job = FedJob(name=name, min_clients=min_sites)
        job.set_app_packages([fedsuper.__name__])
        job.job.add_resource_spec("@default", {"num_of_gpus": gpus})
        job.to_server({"server": {"task_request_interval": POLL_SECONDS}})
        super().__init__(job)
        self.marked = False

    @property
    def job(self) -> FedJob:
        """NVFlare's own description of the job, to add components or filters to."""
        return self._job

    def process_env(self, env: ExecEnv) -> None:
        """A production site decides by its allow-list; the simulator and NVFlare's own POC have none for us."""
        if not isinstance(env, ProdEnv):
            self.mark_as_code()

    def mark_as_code(self) -> None:
        """Give the job a `custom` folder, with nothing but a word of explanation in it."""
        if not self.marked:
            self.job.add_file_to_server(str(CODE_MARK), app_folder_type="custom")
            self.marked = True


class FedSuperRecipe(SuperModelJob):
    """Trains one study: `SuperModelController` on the server, `TrainingExecutor` at every site.

    `resume` goes on from the server's last checkpoint of this study.
    """

    def __init__(self, study: Study, resume: bool | Resume = False) -> None:
        super().__init__(f"fedsuper-{study.method}", study.federation.min_sites, gpus_needed(study))
        self.study = study
        going = Resume.of(resume)
        job = self.job
        job.to_server(SuperModelController(spelled_out(study), going.to_json() if going else False), id="federation")
        receiver = tracking_receiver(study.tracking, study.method)
        executor = TrainingExecutor(study.method, declared_models(study), TRACKER if receiver else None)
        job.to_clients(executor, tasks=list(TASKS))
        if receiver is not None:  # past the filters of results: only where the study asks for it
            job.to_server(receiver, id=study.tracking.to)
            job.to_clients(TBWriter(), id=TRACKER)
            job.to_clients(ConvertToFedEvent(events_to_convert=[ANALYTICS]), id="streamer")


def tracking_receiver(wanted: TrackingSection, method: str) -> AnalyticsReceiver | None:
    """NVFlare's own receiver of what sites stream; None where nothing is to be streamed.

    Sites write in one format and NVFlare translates: a site needs none of the trackers' packages, the server does.
    """
    try:
        if wanted.to == "tensorboard":
            from nvflare.app_opt.tracking.tb.tb_receiver import TBAnalyticsReceiver

            return TBAnalyticsReceiver()
        if wanted.to == "mlflow":
            from nvflare.app_opt.tracking.mlflow.mlflow_receiver import MLflowReceiver

            return MLflowReceiver(wanted.uri, {"experiment_name": wanted.project, "run_name": method})
        if wanted.to == "wandb":
            from nvflare.app_opt.tracking.wandb.wandb_receiver import WandBReceiver

            names = {"project": wanted.project, "name": method, "group": wanted.project, "job_type": "training"}
            return WandBReceiver(names, "online" if wanted.online else "offline")
    except ImportError:
        raise FedSuperError(f"tracking: {wanted.to} needs a package that is not here; pip install "
                            f"'fedsuper[{wanted.to}]' where the job is written and at the server") from None
    return None


def spelled_out(study: Study) -> dict[str, Any]:
    """The study as a reader of the job wants it: the method's every knob, its nets, and what differs from defaults."""
    plain = study.to_json()
    defaults = parse_study({"method": study.method}).to_json()
    shown = {*SHOWN, *(role["kind"] for role in declared_models(study).values())}
    knobs = method_knobs(study.method).model_validate(study.knobs.get(study.method, {}))
    every = knobs.model_dump(mode="json", by_alias=True)
    told = {"method": study.method} | ({study.method: every} if every else {})
    return told | {
        key: value for key, value in plain.items() if key not in told and (key in shown or value != defaults.get(key))
    }


def gpus_needed(study: Study) -> int:
    """GPUs that NVFlare must find free at a site before the job may start there: a study that asks for CUDA needs one.

    `auto` needs none, and uses one where there is one.
    """
    return 1 if study.compute.device.startswith("cuda") else 0
