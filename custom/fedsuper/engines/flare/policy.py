"""What a machine must allow before FedSuper's jobs run there, and nothing more.

A job of FedSuper carries no code. NVFlare then loads only classes on the machine's allow-list, so each kit gets exactly
the classes that the jobs name: the controllers on the server, the executors at the sites. `authorization` closes the
other door: nobody may bring code or open a shell.

    python -m fedsuper.engines.flare.policy KIT [--store FOLDER] [--strict]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from fedsuper.errors import FedSuperError
from fedsuper.files import atomic_write_json

_ROOM = "fedsuper.engines.flare"
SERVER_CLASSES = [
    f"{_ROOM}.controller.SuperModelController",
    f"{_ROOM}.inference_controller.InferenceController",
    f"{_ROOM}.inference_controller.EvaluationController",
]
SITE_CLASSES = [
    f"{_ROOM}.executor.TrainingExecutor",
    f"{_ROOM}.inference_executor.InferenceExecutor",
    f"{_ROOM}.inference_executor.EvaluationExecutor",
]
TEMPORARY = "/tmp/nvflare"  # where a provisioned server keeps jobs and snapshots unless told otherwise


def is_server(kit: Path) -> bool:
    """Whether a start-up kit is the server's."""
    return (kit / "startup" / "fed_server.json").exists()


def allow_classes(kit: Path, store: Path | None = None) -> Path:
    """Add FedSuper's classes to a kit's allow-list, and keep a site's logs at home; doing it twice changes nothing.

    `local/resources.json` replaces the provisioned `resources.json.default` as a whole, so it is written from that.
    `store`, for the server: keep jobs and snapshots there instead of in a temporary folder.
    """
    local = Path(kit) / "local"
    candidates = [local / "resources.json", local / "resources.json.default"]
    source = next((path for path in candidates if path.exists()), None)
    if source is None:
        raise FedSuperError(f"{local}: holds no resources.json and no resources.json.default; give a provisioned "
                            "start-up kit, the folder that holds startup/ and local/")
    text = source.read_text(encoding="utf-8")
    if store:
        text = text.replace(TEMPORARY, str(Path(store).absolute()))
    try:
        resources = json.loads(text)
    except ValueError as error:
        raise FedSuperError(f"{source}: is not JSON ({error}); correct it, or provision the kit again") from None
    listed = resources.setdefault("class_allow_list", [])
    needed = SERVER_CLASSES if is_server(Path(kit)) else SITE_CLASSES
    listed += [entry for entry in needed if entry not in listed]
    if not is_server(Path(kit)):
        resources["allow_log_streaming"] = False  # tracebacks hold paths; logs stay where they are written
    atomic_write_json(local / "resources.json", resources)
    return local / "resources.json"


def restrict_rights(kit: Path) -> Path:
    """Write a kit's `local/authorization.json`: leads submit jobs, nobody brings code or opens a shell at a site.

    A site also gets a `local/privacy.json` that sends every job's answers through the outlet.
    """
    path = Path(kit) / "local" / "authorization.json"
    atomic_write_json(path, authorization(is_server(Path(kit))))
    if not is_server(Path(kit)):
        atomic_write_json(path.with_name("privacy.json"), privacy_policy())
    return path


def privacy_policy() -> dict[str, Any]:
    """The scope of every job: questions and answers pass `OnlyDeclared`."""
    outlet = [{"path": f"{_ROOM}.outlet_filter.OnlyDeclared", "args": {}}]
    scope = {"name": "fedsuper", "properties": {}, "task_data_filters": outlet, "task_result_filters": outlet}
    return {"scopes": [scope], "default_scope": "fedsuper"}


def authorization(server: bool) -> dict[str, Any]:
    """The rights by role. On the server a lead may also ask its own running job for its events (`app_command`)."""
    jobs = ("clone_job", "manage_job", "download_job")
    no_code = {"shell_commands": "none", "byoc": "none"}
    project_admin = {"submit_job": "any", **dict.fromkeys(jobs, "any"), "view": "any", "operate": "any", **no_code}
    org_admin = {"submit_job": "none", "clone_job": "none", "manage_job": "o:submitter", "download_job": "o:submitter",
                 "view": "any", "operate": "o:site", **no_code}
    lead = {"submit_job": "any", **dict.fromkeys(jobs, "n:submitter"), "view": "any", "operate": "o:site", **no_code}
    return {
        "format_version": "1.0",
        "permissions": {
            "project_admin": "any" if server else project_admin,
            "org_admin": org_admin,
            "lead": lead | ({"app_command": "n:submitter"} if server else {}),
            "member": {"view": "any"},
        },
    }


def main() -> None:
    """The command that poc_config/allow_fedsuper.py runs."""
    parser = argparse.ArgumentParser(description="put FedSuper's classes on the allow-list of a start-up kit")
    parser.add_argument("kit", type=Path, help="the start-up kit: the folder that holds startup/ and local/")
    parser.add_argument("--store", type=Path, help="server only: where jobs and snapshots are kept")
    parser.add_argument("--strict", action="store_true",
                        help="also: nobody may bring code or open a shell, and a site lets out only what is declared")
    options = parser.parse_args()
    try:
        print(allow_classes(options.kit, options.store))
        if options.strict:
            print(restrict_rights(options.kit))
    except FedSuperError as problem:
        parser.error(str(problem))


if __name__ == "__main__":
    main()
