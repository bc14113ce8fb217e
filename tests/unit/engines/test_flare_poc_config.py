"""The sample files of poc_config are what NVFlare and FedSuper read."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import yaml

from fedsuper.engines.flare.job import CONTROLLER, EXECUTOR
from fedsuper.engines.flare.settings import Settings

CONFIG = Path(__file__).parents[3] / "poc_config"


def allow(kit: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CONFIG / "allow_fedsuper.py"), str(kit), *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_site_files_hold_known_keys() -> None:
    for side in ("site", "server"):
        assert Settings.model_validate(yaml.safe_load((CONFIG / side / "fedsuper.yaml").read_text())).state_folder


def test_the_allow_list_grows_once_and_keeps_the_rest(tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.mkdir()
    before = {"class_allow_list": ["x.Y"], "components": [{"id": "store", "root": "/tmp/nvflare/jobs"}]}
    (local / "resources.json.default").write_text(json.dumps(before))
    assert allow(tmp_path, "--store", str(tmp_path / "store")).returncode == 0
    first = (local / "resources.json").read_text()
    assert allow(tmp_path).returncode == 0
    assert (local / "resources.json").read_text() == first
    after = json.loads(first)
    assert after["class_allow_list"][0] == "x.Y"
    assert any(CONTROLLER.startswith(entry) and EXECUTOR.startswith(entry) for entry in after["class_allow_list"])
    assert after["components"] == [{"id": "store", "root": f"{tmp_path}/store/jobs"}]


def test_a_folder_that_is_no_kit_is_refused(tmp_path: Path) -> None:
    done = allow(tmp_path)
    assert done.returncode == 2 and "start-up kit" in done.stderr


def test_privacy_filters_can_be_built() -> None:
    for scope in json.loads((CONFIG / "site" / "privacy.json").read_text())["scopes"]:
        for entry in scope["task_result_filters"] + scope["task_data_filters"]:
            module, _, name = entry["path"].rpartition(".")
            getattr(importlib.import_module(module), name)(**entry["args"])


def test_nobody_may_bring_code_to_a_strict_site() -> None:
    roles = json.loads((CONFIG / "site" / "authorization.json").read_text())["permissions"].values()
    assert all(role.get("byoc", "none") == "none" for role in roles)
