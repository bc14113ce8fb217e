"""The rooms keep their walls: who may import whom."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "custom" / "fedsuper"
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))

# Data flows one way: a room may import the rooms named here, and itself.
SHARED = {"errors", "files", "config", "__init__"}
ROOMS = {
    "core": set(),
    "data": set(),
    "models": {"core"},
    "train": {"core", "data", "models"},
    "methods": {"core", "data", "models", "train"},
    "inference": {"core", "data", "models", "train"},
    "evaluation": {"core", "data", "models", "train", "inference"},
    "report": {"core", "data", "models", "train", "inference", "evaluation"},
    "engines": {"core", "data", "models", "train", "methods", "inference", "evaluation", "report"},
    "bench": {"core", "data", "models", "train", "methods", "inference", "evaluation", "report", "engines"},
}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else path.stem


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_stay_inside_the_walls(path: Path) -> None:
    names = imports(path)
    roots = {name.split(".")[0] for name in names}
    if path.relative_to(PACKAGE).parts[:2] != ("engines", "flare"):
        assert "nvflare" not in roots
    room = room_of(path)
    if room == "core":
        assert not roots & {"nvflare", "monai"}
    if room in ROOMS:
        used = {name.split(".")[1] for name in names if name.startswith("fedsuper.")}
        allowed = ROOMS[room] | SHARED | {room} | {"__version__"}
        if room == "data":
            allowed -= {"config"}
        assert used <= allowed, f"{room} must not import {sorted(used - allowed)}"


def test_no_file_leaves_the_safe_paths() -> None:
    """No pickle, no unsafe load, no device written into the code."""
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        for banned in ("import pickle", "torch.load(", ".cuda(", "torch.save("):
            assert banned not in text, f"{path}: {banned}"
