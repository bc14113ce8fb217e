"""What a machine must allow: exactly what the jobs name, and the sample files are what NVFlare and FedSuper read."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST
from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer

from fedsuper.engines.flare.policy import (
    SERVER_CLASSES,
    SITE_CLASSES,
    allow_classes,
    authorization,
    privacy_policy,
    restrict_rights,
)
from fedsuper.engines.flare.settings import Settings
from fedsuper.errors import FedSuperError

REPOSITORY = Path(__file__).parents[4]
CONFIG = REPOSITORY / "poc_config"
JOBS = sorted(path.parent for path in (REPOSITORY / "jobs").glob("*/meta.json"))


def kit_of(folder: Path, side: str) -> Path:
    """A start-up kit as provisioning leaves it."""
    (folder / "startup").mkdir(parents=True)
    (folder / "startup" / f"fed_{side}.json").write_text("{}")
    (folder / "local").mkdir()
    components = [{"id": "store", "root": "/tmp/nvflare/jobs"}]
    before = {"class_allow_list": list(DEFAULT_CLASS_ALLOW_LIST), "components": components}
    (folder / "local" / "resources.json.default").write_text(json.dumps(before))
    return folder


def allowed(kit: Path) -> list[str]:
    return json.loads((kit / "local" / "resources.json").read_text())["class_allow_list"]


def paths(job: Path, side: str) -> set[str]:
    """Every class a job names for the server or for a site."""
    described = json.loads((job / "app" / "config" / f"config_fed_{side}.json").read_text())
    named = described.get("workflows", []) + described["components"]
    return {entry["path"] for entry in named + [entry["executor"] for entry in described.get("executors", [])]}


@pytest.mark.parametrize(("side", "ours"), [("server", SERVER_CLASSES), ("client", SITE_CLASSES)])
def test_the_allow_list_holds_exactly_the_classes_the_jobs_need(side: str, ours: list[str], tmp_path: Path) -> None:
    kit = kit_of(tmp_path, side)
    allow_classes(kit)
    needed = set().union(*(paths(job, side) for job in JOBS))
    assert needed <= set(allowed(kit))
    assert set(allowed(kit)) - set(DEFAULT_CLASS_ALLOW_LIST) == set(ours) == needed - set(DEFAULT_CLASS_ALLOW_LIST)


@pytest.mark.parametrize("path", [
    "fedsuper.engines.flare.recipe.FedSuperRecipe",
    "nvflare.app_common.widgets.decomposer_reg.DecomposerRegister",
])
def test_nothing_else_of_ours_can_be_loaded(path: str, tmp_path: Path) -> None:
    kit = kit_of(tmp_path, "client")
    allow_classes(kit)
    matches = ComponentPathAuthorizer._path_matches_prefix
    assert not any(matches(path, entry) for entry in allowed(kit))
    assert any(matches(SITE_CLASSES[0], entry) for entry in allowed(kit))


def test_the_allow_list_grows_once_and_keeps_the_rest(tmp_path: Path) -> None:
    kit = kit_of(tmp_path / "kit", "server")
    first = allow_classes(kit, tmp_path / "store").read_text()
    assert allow_classes(kit).read_text() == first
    assert json.loads(first)["components"] == [{"id": "store", "root": f"{tmp_path}/store/jobs"}]


def test_the_script_does_both_and_refuses_a_folder_that_is_no_kit(tmp_path: Path) -> None:
    kit = kit_of(tmp_path / "kit", "client")
    command = [sys.executable, str(CONFIG / "allow_fedsuper.py")]
    assert subprocess.run([*command, str(kit), "--strict"], capture_output=True).returncode == 0
    assert (kit / "local" / "authorization.json").exists() and SITE_CLASSES[0] in allowed(kit)
    (kit / "local" / "resources.json").write_text("{torn")
    with pytest.raises(FedSuperError, match="resources.json: is not JSON"):
        allow_classes(kit)
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 2 and "start-up kit" in done.stderr


@pytest.mark.parametrize("side", ["server", "client"])
def test_nobody_may_bring_code_to_a_strict_site(side: str, tmp_path: Path) -> None:
    rights = json.loads(restrict_rights(kit_of(tmp_path, side)).read_text())
    sample = {"server": "server", "client": "site"}[side]
    assert rights == json.loads((CONFIG / sample / "authorization.json").read_text()) == authorization(side == "server")
    roles = rights["permissions"]
    assert roles["lead"]["byoc"] == "none" and ("app_command" in roles["lead"]) == (side == "server")
    if side == "client":
        for right in ("byoc", "shell_commands"):  # what a shell shows would travel through the server
            assert all(role.get(right, "none") == "none" for role in roles.values())


def test_site_files_hold_known_keys() -> None:
    for side in ("site", "server"):
        assert Settings.model_validate(yaml.safe_load((CONFIG / side / "fedsuper.yaml").read_text())).state_folder


def test_privacy_filters_can_be_built() -> None:
    for scope in json.loads((CONFIG / "site" / "privacy.json").read_text())["scopes"]:
        for entry in scope["task_result_filters"] + scope["task_data_filters"]:
            module, _, name = entry["path"].rpartition(".")
            getattr(importlib.import_module(module), name)(**entry["args"])


def test_a_strict_site_sends_every_answer_through_the_outlet(tmp_path: Path) -> None:
    restrict_rights(kit_of(tmp_path / "site", "client"))
    written = json.loads((tmp_path / "site" / "local" / "privacy.json").read_text())
    assert written == privacy_policy() == json.loads((CONFIG / "site" / "privacy.json").read_text())
    restrict_rights(kit_of(tmp_path / "server", "server"))
    assert not (tmp_path / "server" / "local" / "privacy.json").exists()
