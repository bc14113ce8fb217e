"""What a machine knows and a job does not: where its data and its state lie, and on which device it computes.

A job never names a path. Each site (and the server, for its checkpoints) takes them from its environment or from a
file of its own, `local/fedsuper.yaml` in its NVFlare folder:

    data_root: /data/fedsuper       # the folder that holds dataset.json and this site's folder
    state_folder: /data/state       # what must outlive a job; without it state lives and dies with the job
    device: cuda:0
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fedsuper.config import Strict, Study
from fedsuper.engines.server_files import FREE_KEYS
from fedsuper.errors import FedSuperError

SITE_FILE = "fedsuper.yaml"
# Set by hand, or by `fedsuper run` for a federation on one machine.
DATA, STATE, FILE = "FEDSUPER_DATA", "FEDSUPER_STATE", "FEDSUPER_SITE_FILE"
DEVICE, DEVICES = "FEDSUPER_DEVICE", "FEDSUPER_DEVICES"
SERVER_STATE, OUT, EVENTS = "FEDSUPER_SERVER_STATE", "FEDSUPER_OUT", "FEDSUPER_EVENTS"


class Settings(Strict):
    """The keys of the site file."""

    data_root: Path | None = None
    state_folder: Path | None = None
    device: str | None = None


def read_settings(local_folder: Path) -> Settings:
    """The site file: the one FEDSUPER_SITE_FILE names, else `local_folder`/fedsuper.yaml, else nothing."""
    named = os.environ.get(FILE)
    path = from_environment(FILE) or Path(local_folder) / SITE_FILE
    if not named and not path.exists():
        return Settings()
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        settings = Settings.model_validate(raw)
    except OSError as error:
        raise FedSuperError(f"{path}: cannot read the site file ({error.strerror}); mend it or unset {FILE}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FedSuperError(f"{path}: not a YAML file ({' '.join(str(error).split())})") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        known = ", ".join(Settings.model_fields)
        raise FedSuperError(f"{path}: {where}: {first['msg']}; known keys: {known}") from None
    return Settings(data_root=_beside(path, settings.data_root), state_folder=_beside(path, settings.state_folder),
                    device=settings.device)


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


def _beside(path: Path, value: Path | None) -> Path | None:
    return None if value is None else path.parent / value.expanduser()
