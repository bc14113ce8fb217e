"""What docs/how-to/deploy.md promises, as far as it can be tried without machines: kits, certificates, containers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).parents[4]
CONTAINERS = REPOSITORY / "poc_config" / "containers"
NVFLARE = [sys.executable, "-m", "nvflare.cli"]


def provision(workspace: Path) -> None:
    project = REPOSITORY / "poc_config" / "project.yml"
    command = [*NVFLARE, "provision", "-p", str(project), "-w", str(workspace), "--force"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provisioned, and once more after the certificate of site-1 was taken out of the state."""
    folder = tmp_path_factory.mktemp("provisioned")
    provision(folder)
    state = folder / "fedsuper" / "state" / "cert.json"
    known = json.loads(state.read_text())
    del known["site-1"]
    state.write_text(json.dumps(known))
    provision(folder)
    return folder / "fedsuper"


def test_one_certificate_is_renewed_and_the_others_stay(workspace: Path) -> None:
    def certificate(production: str, who: str, name: str) -> bytes:
        return (workspace / production / who / "startup" / name).read_bytes()

    for name, who, same in (("client.crt", "site-1", False), ("client.crt", "site-2", True),
                            ("rootCA.pem", "site-1", True), ("server.crt", "server.example.org", True)):
        assert (certificate("prod_00", who, name) == certificate("prod_01", who, name)) is same, (who, name)


def test_the_federation_has_one_inbound_port(workspace: Path) -> None:
    server = json.loads((workspace / "prod_00" / "server.example.org" / "startup" / "fed_server.json").read_text())
    admin = json.loads((workspace / "prod_00" / "lead@example.org" / "startup" / "fed_admin.json").read_text())
    ports = {server["servers"][0]["admin_port"], admin["admin"]["port"],
             int(server["servers"][0]["service"]["target"].rpartition(":")[2])}
    assert ports == {8002}


def test_nvflare_prepares_a_kit_for_kubernetes(workspace: Path, tmp_path: Path) -> None:
    kit, out = workspace / "prod_01" / "site-1", tmp_path / "prepared"
    command = [*NVFLARE, "deploy", "prepare", str(kit), "--config", str(CONTAINERS / "k8s.yaml"), "--output", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    values = (out / "helm_chart" / "values.yaml").read_text()
    assert "fedsuper" in values and "fedsuper-workspace" in values
    allow = [sys.executable, str(REPOSITORY / "poc_config" / "allow_fedsuper.py"), str(out)]
    assert subprocess.run(allow, capture_output=True).returncode == 0
    resources = json.loads((out / "local" / "resources.json").read_text())
    assert "fedsuper.engines.flare.executor.TrainingExecutor" in resources["class_allow_list"]
    assert resources["allow_log_streaming"] is False
    assert any("K8sJobLauncher" in part["path"] for part in resources["components"])


def test_the_dockerfile_copies_what_exists_and_runs_as_nobody_special() -> None:
    text = (CONTAINERS / "Dockerfile").read_text()
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    words = {line.split()[0] for line in lines}
    assert words <= {"FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN", "USER", "ENTRYPOINT", "CMD"}
    assert re.search(r"^FROM python:3\.11[\w.-]+$", text, re.M) and ":latest" not in text
    for line in lines:
        if line.startswith("COPY "):
            *sources, _ = line.split()[1:]
            assert all((REPOSITORY / source).exists() for source in sources), line
        if line.startswith(("ENTRYPOINT", "CMD")):
            assert isinstance(json.loads(line.partition(" ")[2]), list)
    users = [line.split()[1] for line in lines if line.startswith("USER")]
    assert users and users[-1] not in ("root", "0")


def test_the_compose_file_opens_one_port_and_mounts_data_read_only(tmp_path: Path) -> None:
    path = CONTAINERS / "compose.yml"
    services = yaml.safe_load(path.read_text())["services"]
    assert services["server"]["ports"] == ["8002:8002"] and "ports" not in services["site"]
    assert any(volume.endswith(":/data:ro") for volume in services["site"]["volumes"])
    for service in services.values():
        assert service["cap_drop"] == ["ALL"] and "privileged" not in service
        assert (path.parent / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        assert service["command"] == ["/kit/startup/sub_start.sh"]
    docker = shutil.which("docker")
    if docker and subprocess.run([docker, "compose", "version"], capture_output=True).returncode == 0:
        command = [docker, "compose", "-f", str(path), "--profile", "site", "config", "--quiet"]
        assert subprocess.run(command, env={"KIT": str(tmp_path), "PATH": "/usr/bin:/bin"}).returncode == 0
