"""What pyproject.toml declares, requirements.txt pins and the code imports are one story."""

from __future__ import annotations

import ast
import importlib.metadata
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fedsuper.errors import EXTRA_OF, explain_missing_module

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CORE = [Requirement(text) for text in PROJECT["dependencies"]]
EXTRAS = {name: [Requirement(text) for text in texts] for name, texts in PROJECT["optional-dependencies"].items()}
CALENDAR = {"setuptools", "imagecodecs", "tifffile"}  # a version that is a date promises nothing about the next
# Trackers compute nothing and bring dozens of packages: a server that wants one takes the version it already has.
UNPINNED = {"dev", "mlflow", "wandb"}
RUNTIME = [*CORE, *(need for name, needs in EXTRAS.items() if name not in UNPINNED for need in needs)]


def pins(name: str) -> dict[str, str]:
    lines = [line.split("#")[0].strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines()]
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def names(needs: list[Requirement]) -> set[str]:
    return {canonicalize_name(need.name) for need in needs} - {"fedsuper"}


@pytest.mark.parametrize(("file", "needs"), [("requirements.txt", RUNTIME), ("requirements-dev.txt", EXTRAS["dev"])])
def test_every_declared_package_is_pinned_inside_its_range(file: str, needs: list[Requirement]) -> None:
    pinned = pins(file)
    assert set(pinned) == names(needs)
    for need in needs:
        if need.name != "fedsuper":
            assert need.specifier.contains(pinned[canonicalize_name(need.name)]), need
            assert "<" in str(need.specifier) or need.name in CALENDAR, f"{need}: an upper bound is missing"


def test_every_imported_package_is_declared_and_optional_ones_name_their_extra() -> None:
    owners = importlib.metadata.packages_distributions()
    core, allowed = names(CORE), {name: names(needs) for name, needs in EXTRAS.items()}
    for path in sorted((ROOT / "custom").rglob("*.py")):
        for module in sorted(third_party_imports(path)):
            known = {canonicalize_name(owner) for owner in owners.get(module, [module])}
            if module in EXTRA_OF:
                assert known & allowed[EXTRA_OF[module]], f"{path}: {module} is not in [{EXTRA_OF[module]}]"
            else:
                assert known & core, f"{path}: {module} is neither a core dependency nor in errors.EXTRA_OF"


def third_party_imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    come_with_pydantic = {"typing_extensions", "pydantic_core"}
    return found - set(sys.stdlib_module_names) - come_with_pydantic - {"fedsuper"}


def test_a_missing_extra_is_one_line_that_says_what_to_install() -> None:
    line = explain_missing_module(ModuleNotFoundError("No module", name="nvflare.apis"))
    assert line and "pip install 'fedsuper[flare]'" in line
    assert explain_missing_module(ModuleNotFoundError("No module", name="fedsuper.oops")) is None


def find_python(version: str) -> str | None:
    """An interpreter of that version that starts (a pyenv shim on the path may not)."""
    places = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}*/bin/python{version}")]
    for place in filter(None, places):
        if subprocess.run([place, "-c", ""], capture_output=True).returncode == 0:
            return str(place)
    return None


@pytest.mark.parametrize("version", ["3.11", "3.12"])
def test_every_promised_python_understands_every_file(version: str, tmp_path: Path) -> None:
    python = find_python(version)
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    if python is None:
        pytest.skip(f"this machine has no Python {version}")
    source = tmp_path / "custom"
    shutil.copytree(ROOT / "custom", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    subprocess.run([python, "-W", "error", "-m", "compileall", "-q", source], check=True)
    shown = subprocess.run(
        [python, "-S", "-m", "fedsuper.cli", "--help"], cwd=source, capture_output=True, text=True, check=True
    )
    assert "predict" in shown.stdout
