"""The walks in docs/explanation/architecture.md are true: traced in a real run and a real prediction."""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import pytest
from walls import PACKAGE, ROOMS, SHARED

from fedsuper.cli import main

DOCUMENT = (Path(__file__).parents[2] / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
MOST_HOPS = 8


def hops(title: str) -> list[str]:
    """The `module:function` of each numbered step of a section."""
    section = DOCUMENT.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. `([\w.]+:[\w.]+)`", section, re.M)


def code_of(hop: str) -> CodeType:
    module, _, name = hop.partition(":")
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found.__code__  # type: ignore[attr-defined]


def traced(work: Callable[[], object], wanted: list[str]) -> list[str]:
    """The wanted functions in the order of their calls, over all threads."""
    names = {code_of(hop): hop for hop in wanted}
    calls: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code in names:
            calls.append(names[frame.f_code])

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return calls


def follows(hops: list[str], calls: list[str]) -> bool:
    """Whether the hops appear among the calls in their order."""
    left = iter(calls)
    return all(hop in left for hop in hops)


@pytest.fixture(scope="module")
def run(tiny_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("walk")
    (folder / "study.yaml").write_text("method: fedsm\nrounds: 1\nimage_size: 32\nmodel: {channels: [4, 8]}\n")
    words = ["run", str(folder / "study.yaml"), "--data", str(tiny_root), "--out", str(folder / "run")]
    calls = traced(lambda: main([*words, "--engine", "local"]), hops("The walk of one round"))
    return folder, calls


def test_the_walk_of_one_round_is_true(run: tuple[Path, list[str]]) -> None:
    walk = hops("The walk of one round")
    assert 4 <= len(walk) <= MOST_HOPS
    assert follows(walk, run[1])
    assert not follows(walk[::-1], run[1]), "the order matters"


def test_the_walk_of_one_predicted_image_is_true(run: tuple[Path, list[str]], tiny_root: Path) -> None:
    folder, _ = run
    image = next((tiny_root / "site-1" / "images").iterdir())
    words = ["predict", str(folder / "run" / "supermodel"), str(image), "--out", str(folder / "masks")]
    walk = hops("The walk of one predicted image")
    calls = traced(lambda: main(words), walk)
    assert 4 <= len(walk) <= MOST_HOPS
    assert follows(walk, calls)


def test_every_room_and_shared_file_is_told() -> None:
    for room in ROOMS:
        assert f"| `{room}/` |" in DOCUMENT
    for file in SHARED:
        assert f"`{file}.py`" in DOCUMENT


def test_every_file_and_folder_that_is_named_exists() -> None:
    rows = re.findall(r"^\| `(\w+)/` \|(.*)\|$", DOCUMENT, re.M)
    for room, text in rows:
        for name in re.findall(r"`([\w/]+(?:/|\.py))`", text):
            assert (PACKAGE / room / name).exists(), f"{room}/{name}"
