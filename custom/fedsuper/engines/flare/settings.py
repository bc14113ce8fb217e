"""What a machine knows and a job does not: where its data and its state lie, and on which device it computes.

A job never names a path. Each site (and the server, for its checkpoints) takes them from its environment or from a
file of its own, `local/fedsuper.yaml` in its NVFlare folder:

    data_root: /data/fedsuper       # the folder that holds dataset.json and this site's folder
    state_folder: /data/state       # what must outlive a job; without it state lives and dies with the job
    device: cuda:0
    inbox: /data/inbox              # what inference jobs segment; without it the site's folder under data_root
    outbox: /data/outbox            # where they leave masks, routing.csv and preview
    supermodels: /data/supermodels  # the server's: folders of super models that inference jobs may use
    minimum: 5                      # figures over fewer patients than this do not leave the site; inference: 5 or more
    refuse_methods: [feddg]         # methods this site takes no part in
    refuse_models: [personal]       # what it never sends, by the names of docs/reference/what-travels.md
    refuse_streaming: true          # no metrics to a tracker on the server, whatever the study says
    epsilon: 8                      # its privacy budget for a study (`privacy.noise`): it answers until that is spent
    audit: /data/audit.jsonl        # a line for everything that left; without it beside the state
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from fedsuper.config import Strict, Study
from fedsuper.config.yaml_files import read_yaml
from fedsuper.data.layout import resolve_site
from fedsuper.errors import FedSuperError
from fedsuper.federation.checkpoints import FREE_KEYS
from fedsuper.federation.outlet.audit import AUDIT_FILE
from fedsuper.federation.outlet.release import SiteRules
from fedsuper.federation.serving.held_models import identity_of
from fedsuper.federation.serving.request import MINIMUM as PATIENTS
from fedsuper.inference.supermodel_manifest import MANIFEST

SITE_FILE = "fedsuper.yaml"
# Set by hand, or by `fedsuper run` for a federation on one machine.
DATA, STATE, FILE = "FEDSUPER_DATA", "FEDSUPER_STATE", "FEDSUPER_SITE_FILE"
DEVICE, DEVICES = "FEDSUPER_DEVICE", "FEDSUPER_DEVICES"
SERVER_STATE, OUT, EVENTS = "FEDSUPER_SERVER_STATE", "FEDSUPER_OUT", "FEDSUPER_EVENTS"
SUPER_MODEL, KEPT, OUTBOX = "FEDSUPER_SUPERMODEL", "FEDSUPER_KEPT", "FEDSUPER_OUTBOX"
MINIMUM = "FEDSUPER_MINIMUM"
SIMULATED = "simulate_job"  # the only job of NVFlare's simulator
PLACES = "FEDSUPER_PLACES"  # how many sites compute at the same time on the simulator's machine
SHARED = "FEDSUPER_SHARED"  # a folder in memory through which the simulator's processes hand tensors over
UNFILTERED = "FEDSUPER_UNFILTERED"  # set on the simulator's machine for a job that changes no message
GONE = "FEDSUPER_GONE"  # a file in which the simulator's keeper names sites whose process died


class Settings(Strict):
    """The keys of the site file."""

    data_root: Path | None = None
    state_folder: Path | None = None
    device: str | None = None
    inbox: Path | None = None
    outbox: Path | None = None
    supermodels: Path | None = None
    audit: Path | None = None
    minimum: int | None = Field(None, ge=1)
    refuse_methods: list[str] = []
    refuse_models: list[str] = []
    refuse_streaming: bool = False
    epsilon: float | None = Field(None, gt=0)

    def rules(self, job: str) -> SiteRules:
        """What the site has decided for itself. Where all sites are one machine's (`fedsuper run`, the simulator)
        nothing leaves it, and figures of few patients are no secret.
        """
        least = os.environ.get(MINIMUM)
        usual = 1 if job == SIMULATED else PATIENTS
        return SiteRules(self.minimum or (int(least) if least else usual), self.refuse_methods, self.refuse_models,
                         self.epsilon)


def read_settings(local_folder: Path) -> Settings:
    """The site file: the one FEDSUPER_SITE_FILE names, else `local_folder`/fedsuper.yaml, else nothing."""
    named = os.environ.get(FILE)
    path = from_environment(FILE) or Path(local_folder) / SITE_FILE
    if not named and not path.exists():
        return Settings()
    try:
        settings = Settings.model_validate(read_yaml(path, "the site file") or {})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        known = ", ".join(Settings.model_fields)
        raise FedSuperError(f"{path}: {where}: {first['msg']}; known keys: {known}") from None
    paths = {key: _beside(path, value) for key, value in settings if isinstance(value, Path)}
    return settings.model_copy(update=paths)


def from_environment(name: str) -> Path | None:
    """A path from the environment. NVFlare changes the working folder, so a relative one counts from the shell's."""
    value = os.environ.get(name)
    return Path(os.environ.get("PWD", "."), value) if value else None


def data_root_of(site: str, settings: Settings) -> Path:
    """Where this site's data is: FEDSUPER_DATA, else the site file."""
    root = from_environment(DATA) or settings.data_root
    if root is None:
        raise FedSuperError(f"{site}: does not know its data root; set {DATA} where the site is started, or write "
                            f"data_root into local/{SITE_FILE} of its NVFlare folder")
    return root


def state_folder_of(site: str, settings: Settings, study: Study, run_folder: Path) -> Path:
    """What a site keeps between rounds: by FEDSUPER_STATE or the site file it outlives the job."""
    shared = from_environment(STATE)
    if shared is not None:
        return shared / site
    return settings.state_folder / study_id(study) / site if settings.state_folder else run_folder / "state"


def server_state_folder(settings: Settings, study: Study, run_folder: Path) -> Path:
    """Where the server keeps its checkpoints: by FEDSUPER_SERVER_STATE or its site file they outlive the job."""
    named = from_environment(SERVER_STATE)
    if named is not None:
        return named
    return settings.state_folder / study_id(study) / "server" if settings.state_folder else run_folder / "state"


def inbox_of(site: str, settings: Settings) -> Path:
    """What an inference job segments: the inbox, else the site's folder under its data root."""
    return settings.inbox or resolve_site(data_root_of(site, settings), site)


def outbox_of(site: str, settings: Settings, run_folder: Path) -> Path:
    """Where an inference job leaves its masks: a folder the site owns, else the job's own."""
    shared = from_environment(OUTBOX)
    return shared / site / "outbox" if shared else settings.outbox or run_folder / "outbox"


def audit_file_of(site: str, settings: Settings, workspace: Path) -> Path:
    """Where a site writes down what left it; a file of its own that outlives every job."""
    shared = from_environment(STATE)
    if settings.audit or shared is None:
        beside = settings.state_folder / AUDIT_FILE if settings.state_folder else workspace / f"{site}-{AUDIT_FILE}"
        return settings.audit or beside
    return shared / site / AUDIT_FILE


def serving_folder_of(site: str, settings: Settings, run_folder: Path) -> Path:
    """What inference jobs keep at a site: super models and tuned gates."""
    shared = from_environment(STATE)
    if shared is not None:
        return shared / site / "serving"
    return settings.state_folder / "serving" / site if settings.state_folder else run_folder / "serving"


def kept_states_of(site: str, settings: Settings) -> list[Path]:
    """The states that trainings left at this site: their super models need not be sent again, their splits hold."""
    shared = [folder / site for folder in (from_environment(STATE), from_environment(KEPT)) if folder]
    own = sorted(settings.state_folder.glob(f"*/{site}")) if settings.state_folder else []
    return [folder for folder in (*shared, *own) if folder.is_dir()]


def super_model_of(settings: Settings, identity: str | None) -> Path:
    """Where the server holds a super model: by FEDSUPER_SUPERMODEL, among its `supermodels`, or from a training."""
    named = from_environment(SUPER_MODEL)
    kept = settings.supermodels.glob("*") if settings.supermodels else ()
    trained = settings.state_folder.glob("*/server/supermodel") if settings.state_folder else ()
    found = [named] if named else [path for path in sorted((*kept, *trained)) if (path / MANIFEST).is_file()]
    if identity is None and named is None:
        raise FedSuperError(f"the job names no super model; submit it with `fedsuper infer`, or set {SUPER_MODEL} "
                            "where the server is started")
    for folder in found:
        if identity is None or identity_of(folder) == identity:
            return folder
    raise FedSuperError(f"the server does not hold the super model {identity}; copy its folder to the one "
                        f"that `supermodels` names in the server's local/{SITE_FILE}")


def places() -> int | None:
    """How many sites compute at the same time; None for all, where each has a machine of its own."""
    return int(os.environ.get(PLACES, 0)) or None


def unfiltered() -> bool:
    """Whether nothing is between this process and those it talks to that could change a message."""
    return bool(os.environ.get(UNFILTERED))


def device_of(site: str, settings: Settings) -> str | None:
    """The device this machine was given, if any; it wins over the study's."""
    dealt: dict[str, Any] = json.loads(os.environ.get(DEVICES, "{}"))
    return os.environ.get(DEVICE) or dealt.get(site) or settings.device


def deal_devices(gpus: str | None, sites: list[str]) -> dict[str, str]:
    """`--gpus 0,1`: the sites dealt out to the GPUs in turn, as an environment for the whole federation."""
    if not gpus:
        return {}
    numbers = gpus.split(",")
    if not all(number.strip().isdigit() for number in numbers):
        raise FedSuperError(f"--gpus {gpus}: expected GPU numbers, for example 0,1")
    return {DEVICES: json.dumps({site: f"cuda:{int(numbers[i % len(numbers)])}" for i, site in enumerate(sites)})}


def study_id(study: Study) -> str:
    """A name for the state of one study: the same for every run that may go on from another's checkpoint."""
    fixed = {key: value for key, value in study.to_json().items() if key not in FREE_KEYS}
    return f"{study.method}-{hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()[:12]}"


def _beside(path: Path, value: Path) -> Path:
    return path.parent / value.expanduser()
