"""`--engine poc`: a whole NVFlare federation on this machine, provisioned, started, used once and stopped."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, TypeVar

import yaml

from fedsuper.config import Study
from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.flare.launch import one_machine
from fedsuper.engines.flare.launch.one_machine import OneMachine
from fedsuper.engines.flare.launch.processes import ProcessFamily
from fedsuper.engines.flare.launch.prod import run_prod
from fedsuper.engines.flare.policy import allow_classes, restrict_rights
from fedsuper.errors import FedSuperError
from fedsuper.federation.checkpoints import Resume

PROJECT = "fedsuper"
SERVER = "localhost"  # by this name NVFlare's server listens on the loopback interface only
ADMIN, LEAD = "admin@fedsuper.org", "lead@fedsuper.org"
START_SECONDS = 120
Result = TypeVar("Result")


def run_poc(study: Study, data_root: Path, folder: Path, progress_stream: TextIO | None = None,
            threads: int | None = None, resume: bool | Resume = False, gpus: str | None = None) -> SuperModel:
    """Run a study on a federation of real NVFlare processes, on free ports, and leave none of them behind.

    The job, the session and the rights are those of production: a lead submits, without code, to machines that let
    nobody bring any. Only provisioning and start are done here, on the loopback interface.
    """
    refuse_threads(threads)
    place = one_machine.for_study(study, data_root, folder, gpus)
    return on_poc(place, lambda kit: run_prod(study, place.folder, kit, progress_stream, resume))


def refuse_threads(threads: int | None) -> None:
    """A choice that only the simulator has."""
    if threads is not None:
        raise FedSuperError("--threads: in a POC every site has a process of its own; leave the option out")


def on_poc(place: OneMachine, use: Callable[[Path], Result]) -> Result:
    """Provision and start a federation, `use` it with the start-up kit of its lead, end it."""
    family = ProcessFamily()
    with tempfile.TemporaryDirectory(prefix="fedsuper-") as temporary:
        workspace = one_machine.without_spaces(place.folder, Path(temporary)) / one_machine.WORKSPACE
        shutil.rmtree(workspace, ignore_errors=True)
        workspace.mkdir()
        places = {"HOME": str(workspace), "NVFLARE_POC_WORKSPACE": str(workspace / "poc")}
        poc = Poc(workspace, family.environment(place.environment() | places), place.log)
        with family.kept():
            result = use(poc.start(place.sites))
            poc.call("stop", needed=False)
            return result


class Poc:
    """NVFlare's `poc` command in a folder of its own."""

    def __init__(self, workspace: Path, environment: dict[str, str], log: Path) -> None:
        self.workspace = workspace
        self.environment = environment
        self.log = log

    def start(self, sites: list[str]) -> Path:
        """Provision and start server and sites, wait until all are connected; the lead's start-up kit."""
        project = self.workspace / "project.yml"
        project.write_text(yaml.safe_dump(_project(sites), sort_keys=False), encoding="utf-8")
        self.call("prepare", "-i", str(project), "--force")
        kits = self.workspace / "poc" / PROJECT / "prod_00"
        for name in (SERVER, *sites):
            allow_classes(kits / name)
            restrict_rights(kits / name)
        self.call("start", "--timeout", str(START_SECONDS))
        return kits / LEAD

    def call(self, *arguments: str, needed: bool = True) -> None:
        """One `nvflare poc` command; its output goes to the log, and where it is `needed` a failure is an error."""
        command = [sys.executable, "-m", "nvflare.cli", "poc", *arguments, "--format", "json"]
        done = subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(f"nvflare poc {' '.join(arguments)}\n{done.stdout}{done.stderr}\n")
        if done.returncode and needed:
            raise FedSuperError(f"nvflare poc {arguments[0]} failed ({_message(done.stdout)}); see {self.log}")


def _project(sites: list[str]) -> dict[str, Any]:
    fed_learn_port, admin_port = _free_ports(2)
    builders = {
        "workspace.WorkspaceBuilder": {"template_file": ["master_template.yml"]},
        "static_file.StaticFileBuilder": {"config_folder": "config"},
        "cert.CertBuilder": {},
        "signature.SignatureBuilder": {},
    }
    return {
        "api_version": 3,
        "name": PROJECT,
        "description": "A FedSuper federation on one machine",
        "participants": [
            {"name": SERVER, "type": "server", "org": PROJECT, "fed_learn_port": fed_learn_port,
             "admin_port": admin_port},
            *({"name": site, "type": "client", "org": PROJECT} for site in sites),
            {"name": ADMIN, "type": "admin", "org": PROJECT, "role": "project_admin"},
            {"name": LEAD, "type": "admin", "org": PROJECT, "role": "lead"},
        ],
        "builders": [{"path": f"nvflare.lighter.impl.{name}", "args": args} for name, args in builders.items()],
    }


def _free_ports(count: int) -> list[int]:
    """Ports nobody listens on now; held together so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _message(output: str) -> str:
    """What NVFlare's JSON answer says went wrong."""
    try:
        answer = json.loads(output)
        return str(answer.get("message") or answer.get("error") or answer.get("status"))
    except (ValueError, AttributeError):
        return "no reason given"
