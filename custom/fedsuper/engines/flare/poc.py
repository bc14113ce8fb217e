"""`--engine poc`: a whole NVFlare federation on this machine, provisioned, started, used for one study and stopped."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO

import yaml

from fedsuper.config import Study
from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.flare import one_machine
from fedsuper.engines.flare.processes import ProcessFamily
from fedsuper.engines.flare.prod import run_prod
from fedsuper.errors import FedSuperError

PROJECT = "fedsuper"
ADMIN = "admin@fedsuper.org"
START_SECONDS = 120


def run_poc(study: Study, data_root: Path, folder: Path, progress_stream: TextIO | None = None,
            threads: int | None = None, resume: bool = False, gpus: str | None = None) -> SuperModel:
    """Run a study on a federation of real NVFlare processes, on free ports, and leave none of them behind.

    The same job and the same session as in production; only provisioning and start are done here.
    """
    if threads is not None:
        raise FedSuperError("--threads: in a POC every site has a process of its own; leave the option out")
    data_root, folder = Path(data_root).absolute(), Path(folder).absolute()
    sites = one_machine.usable_sites(study, data_root)
    family = ProcessFamily()
    with tempfile.TemporaryDirectory(prefix="fedsuper-") as temporary:
        workspace = one_machine.without_spaces(folder, Path(temporary)) / one_machine.WORKSPACE
        shutil.rmtree(workspace, ignore_errors=True)
        workspace.mkdir()
        places = {"HOME": str(workspace), "NVFLARE_POC_WORKSPACE": str(workspace / "poc")}
        environment = one_machine.environment(data_root, folder, sites, gpus) | places
        poc = Poc(workspace, family.environment(environment), folder / one_machine.LOG)
        with family.kept():
            kit = poc.start(sites)
            super_model = run_prod(study, folder, kit, progress_stream, resume, custom=True)
            poc.call("stop", needed=False)
            return super_model


class Poc:
    """NVFlare's `poc` command in a folder of its own."""

    def __init__(self, workspace: Path, environment: dict[str, str], log: Path) -> None:
        self.workspace = workspace
        self.environment = environment
        self.log = log

    def start(self, sites: list[str]) -> Path:
        """Provision and start server and sites, wait until all are connected; the admin's start-up kit."""
        project = self.workspace / "project.yml"
        project.write_text(yaml.safe_dump(_project(sites), sort_keys=False), encoding="utf-8")
        self.call("prepare", "-i", str(project), "--force")
        self.call("start", "--timeout", str(START_SECONDS))
        return self.workspace / "poc" / PROJECT / "prod_00" / ADMIN

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
            {"name": "server", "type": "server", "org": PROJECT, "default_host": "localhost",
             "fed_learn_port": fed_learn_port, "admin_port": admin_port},
            *({"name": site, "type": "client", "org": PROJECT} for site in sites),
            {"name": ADMIN, "type": "admin", "org": PROJECT, "role": "project_admin"},
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
