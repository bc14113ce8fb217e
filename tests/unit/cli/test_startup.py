"""`fedsuper --help` is instant: counted in modules, because seconds depend on the machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "numpy", "monai", "nvflare", "pydantic", "yaml", "scipy", "matplotlib", "PIL", "nibabel",
         "rich", "safetensors"}

COUNT = """
import sys
from fedsuper.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print("MODULES", *sorted(sys.modules))
"""


def modules_after(*arguments: str) -> set[str]:
    """What a fresh interpreter has imported once the command line has answered."""
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"], ["predict", "--help"], ["oops"]])
def test_answers_without_heavy_imports(arguments: list[str]) -> None:
    modules = modules_after(*arguments)
    assert not {name.partition(".")[0] for name in modules} & HEAVY
    assert len(modules) < 200, "argparse and our own few files"


def test_the_count_sees_heavy_imports() -> None:
    assert "numpy" in modules_after("import", "--help")
