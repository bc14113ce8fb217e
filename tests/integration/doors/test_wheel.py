"""A hospital that only predicts: the wheel in an environment that holds the core dependencies and nothing else."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def core_closure(wheel: importlib.metadata.Distribution) -> dict[str, importlib.metadata.Distribution]:
    """Every distribution that installing the wheel without extras would bring, by name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [Requirement(text) for text in wheel.requires or []]
    while waiting:
        need = waiting.pop()
        if need.marker is not None and not any(need.marker.evaluate({"extra": extra}) for extra in need.extras or {""}):
            continue
        if need.name.lower() not in found:
            distribution = importlib.metadata.distribution(need.name)
            assert need.specifier.contains(distribution.version, prereleases=True), need
            found[need.name.lower()] = distribution
            waiting += [Requirement(text) for text in distribution.requires or []]
    return found


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and links to the core dependencies of this one: no download, nothing else seen."""
    folder = tmp_path_factory.mktemp("bare")
    source = folder / "source"
    shutil.copytree(ROOT / "custom", source / "custom", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, source]
    subprocess.run(build, check=True, env=ENVIRONMENT)
    (wheel,) = folder.glob("fedsuper-*.whl")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    install = [*pip, "--python", python, "install", "-q", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True, env=ENVIRONMENT)
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    (distribution,) = importlib.metadata.distributions(path=[str(packages)], name="fedsuper")
    for needed in core_closure(distribution).values():
        for name in {file.parts[0] for file in needed.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (packages / name).exists():
                (packages / name).symlink_to(Path(str(needed.locate_file(name))))
    return folder / "env" / "bin"


def call(bin: Path, *words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([bin / words[0], *words[1:]], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True)


def test_core_alone_makes_data_trains_in_process_and_predicts(bare: Path, tmp_path: Path) -> None:
    for absent in ("nvflare", "flask", "gunicorn", "matplotlib", "pytest"):
        assert "ModuleNotFoundError" in call(bare, "python", "-c", f"import {absent}", cwd=tmp_path).stderr
    (tmp_path / "study.yaml").write_text(
        "method: fedsm\nrounds: 1\nimage_size: 32\nmodel: {channels: [4, 8]}\n", encoding="utf-8"
    )
    for line in (
        "fedsuper synth --task retina --out data --sites 2 --images 16 --size 48",
        "fedsuper doctor data",
        "fedsuper run study.yaml --data data --out run --engine local",
        "fedsuper predict run/supermodel data/site-1/images --out masks",
    ):
        done = call(bare, *line.split(), cwd=tmp_path)
        assert done.returncode == 0, f"{line}: {done.stderr}"
    images = list((tmp_path / "data" / "site-1" / "images").iterdir())
    assert len(list((tmp_path / "masks").glob("*.png"))) == len(images) > 0
    refused = call(bare, *"fedsuper run study.yaml --data data --out sim".split(), cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.strip().splitlines()[-1].endswith("pip install 'fedsuper[flare]'")
