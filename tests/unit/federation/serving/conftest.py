"""A super model of two sites, and a data root of one's own to spoil."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from super_models import random_super_model

from fedsuper.core.supermodel import SuperModel
from fedsuper.inference.artifact import save_super_model


@pytest.fixture(scope="module")
def super_model() -> SuperModel:
    """Two sites trained; a third hospital of the data root never did."""
    made = random_super_model(["site-1", "site-2"])
    made.manifest["history"] = [{"round": 1, "sites": {"site-1": {"val/global": 0.123456}}}]
    return made


@pytest.fixture(scope="module")
def folder(super_model: SuperModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("trained") / "supermodel"
    save_super_model(super_model, place)
    return place


@pytest.fixture
def own_root(tiny_root: Path, tmp_path: Path) -> Path:
    root = tmp_path / "root"
    shutil.copytree(tiny_root, root)
    return root
