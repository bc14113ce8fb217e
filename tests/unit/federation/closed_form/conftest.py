"""Three hospitals, and a federation of theirs with the closed-form selector."""

from __future__ import annotations

from pathlib import Path

import pytest
from closed_form import Wire, closed_form, federate

from fedsuper.core.supermodel import SuperModel
from fedsuper.data.synthetic.retina import write_retina


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibration") / "root"
    write_retina(folder, sites=3, images=90, size=48, difficulty="easy")
    return folder


@pytest.fixture(scope="module")
def run(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[SuperModel, Wire, Path]:
    folder = tmp_path_factory.mktemp("run")
    whole, wire, _ = federate(root, folder, closed_form(gate="expected-dice"))
    return whole, wire, folder
