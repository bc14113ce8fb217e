"""The rooms keep their walls: who may import whom, and no circles, not even behind lazy imports."""

from __future__ import annotations

from pathlib import Path

import pytest
from walls import MODULES, PACKAGE, PARTLY, PLACES, PUBLIC, ROOMS, SHARED, TORCH_FREE, cycle, import_graph, violations


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=place)
def test_imports_stay_inside_the_walls(path: Path) -> None:
    assert not violations(place(path), path.read_text(encoding="utf-8"))


def test_every_room_has_walls() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms == set(ROOMS)
    files = {path.stem for path in PACKAGE.glob("*.py")}
    assert files <= SHARED | {name.removesuffix(".py") for name in PUBLIC}


@pytest.mark.parametrize(
    ("room", "other"), [(room, other) for room in ROOMS for other in ROOMS if other not in ROOMS[room] | {room}]
)
def test_a_wall_stops_what_it_should(room: str, other: str) -> None:
    """The proof of every single wall, at the top of a file and hidden in a function."""
    assert violations(f"{room}/new.py", f"from fedsuper.{other}.thing import part")
    assert violations(f"{room}/deep/new.py", f"def f():\n    import fedsuper.{other}")


def test_no_room_may_import_everything() -> None:
    assert all(set(ROOMS) - allowed - {room} for room, allowed in ROOMS.items())


def test_doors_that_are_open_stay_open() -> None:
    assert not violations("studies/new.py", "from fedsuper.engines.in_process import run_local")
    assert not violations("core/new.py", "from fedsuper.errors import FedSuperError\nimport torch")


@pytest.mark.parametrize(("room", "other"), PARTLY)
def test_a_door_for_one_file_is_shut_to_the_others(room: str, other: str) -> None:
    line = f"from fedsuper.{other} import thing"
    assert violations(f"{room}/new.py", line)
    assert not violations(PARTLY[room, other][0].removeprefix("fedsuper.").replace(".", "/") + ".py", line)


@pytest.mark.parametrize("package", PLACES)
def test_foreign_packages_have_their_place(package: str) -> None:
    assert violations("core/new.py", f"import {package}.thing")
    assert not violations(f"{PLACES[package][0]}/new.py", f"from {package} import thing")


@pytest.mark.parametrize("where", TORCH_FREE)
def test_torch_stays_out_of_what_must_start_at_once(where: str) -> None:
    assert violations(where if where.endswith(".py") else f"{where}/new.py", "import torch")


def test_the_public_api_is_for_users_only() -> None:
    assert violations("studies/new.py", "from fedsuper.api import train")
    assert not violations("api.py", "from fedsuper.studies.run import run_study")


def test_relative_imports_are_refused() -> None:
    assert violations("core/new.py", "from . import state") and violations("core/new.py", "from .state import x")


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert not cycle(import_graph())


def test_a_circle_would_be_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]


def test_no_file_leaves_the_safe_paths() -> None:
    """No pickle, no unsafe load, no device written into the code."""
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        for banned in ("import pickle", "torch.load(", ".cuda(", "torch.save("):
            assert banned not in text, f"{path}: {banned}"
