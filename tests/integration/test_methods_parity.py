"""The same study gives the same bits in process and on NVFlare's simulator, whatever the method sends.

By default the methods whose messages differ most: further models beside w (Scaffold), parts of a model (FedBN),
something that is no model (FedDG), two phases with site-held models, integer labels and a one-off broadcast
(FedSM-extra with APFL).
FEDSUPER_PARITY=all runs every method.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fedsuper.config import parse_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.flare.simulator import run_simulator
from fedsuper.engines.local import run_local
from fedsuper.engines.progress import Silent
from fedsuper.methods import METHODS
from fedsuper.train.checkpoint import digest

pytestmark = pytest.mark.integration

SMALL: dict[str, Any] = {
    "rounds": 2,
    "image_size": 32,
    "model": {"channels": [4, 8], "residual_units": 0, "norm": "batch"},
    "optimizer": {"lr": 0.01},
    "fedsm-extra": {"extra_rounds": 1, "personal": "apfl"},
    "fedsm-ensemble": {"extra_rounds": 1},
    "ft": {"epochs": 1},
}
REPRESENTATIVE = ("scaffold", "fedbn", "feddg", "fedsm-extra")
CHOSEN = METHODS if os.environ.get("FEDSUPER_PARITY") == "all" else REPRESENTATIVE


def bits(super_model: SuperModel) -> dict[str, str]:
    """A digest of every model that is handed over."""
    models = super_model.experts() | super_model.extras
    return {name: digest(state) for name, state in (models | {"selector": super_model.selector or {}}).items()}


@pytest.mark.parametrize("method", CHOSEN)
def test_the_simulator_and_this_process_agree_bit_for_bit(method: str, tiny_root: Path, tmp_path: Path) -> None:
    study = parse_study({**SMALL, "method": method})
    here = run_local(study, tiny_root, tmp_path / "local", Silent())
    there = run_simulator(study, tiny_root, tmp_path / "simulator")
    assert bits(there) == bits(here)
    assert there.manifest["history"] == here.manifest["history"]
    assert there.manifest["metrics"] == here.manifest["metrics"] and there.mode == here.mode
