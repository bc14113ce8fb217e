"""A tiny federation that every test may train on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedsuper.config import Study, parse_study
from fedsuper.data.synthetic.retina import write_retina

torch.set_num_threads(1)

TINY = {
    "method": "fedsm",
    "rounds": 2,
    "image_size": 32,
    "model": {"channels": [4, 8], "residual_units": 0},
    "optimizer": {"lr": 0.01},
}


@pytest.fixture(scope="session")
def tiny_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three synthetic hospitals with a dozen images each; read-only by agreement."""
    root = tmp_path_factory.mktemp("federation") / "root"
    write_retina(root, sites=3, images=36, size=48, seed=0)
    return root


@pytest.fixture
def tiny_study() -> Study:
    """A study that trains in about a second."""
    return parse_study(TINY)
