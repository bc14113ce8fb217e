"""The same study gives the same bits in process and on NVFlare's simulator, for every method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fedsuper.config.reading import parse_study
from fedsuper.core.supermodel import SuperModel
from fedsuper.engines.flare.launch.simulator import run_simulator
from fedsuper.engines.in_process import run_local
from fedsuper.federation.progress import Silent
from fedsuper.methods import METHODS
from fedsuper.train.checkpoint import digest

SMALL: dict[str, Any] = {
    "rounds": 2,
    "image_size": 32,
    "model": {"name": "plain-unet", "channels": [4, 8], "norm": "batch"},
    "optimizer": {"lr": 0.01},
    "fedsm-extra": {"extra_rounds": 1, "personal": "apfl"},
    "fedsm-ensemble": {"extra_rounds": 1},
    "ft": {"epochs": 1},
}


def bits(super_model: SuperModel) -> dict[str, str]:
    """A digest of every model that is handed over."""
    models = dict(super_model.experts()) | super_model.extras
    return {name: digest(state) for name, state in (models | {"selector": super_model.selector or {}}).items()}


def test_the_closed_form_selector_its_gate_and_shares_agree_too(pair_root: Path, tmp_path: Path) -> None:
    """With models in 16 bits: what both ends keep of the rounding is part of the bits."""
    study = parse_study({**SMALL, "method": "fedsm", "wire": "fp16", "fedsm": {"lambda": "auto"},
                         "selector": {"kind": "statistics", "gate": "expected-dice"}})
    here = run_local(study, pair_root, tmp_path / "local", Silent())
    there = run_simulator(study, pair_root, tmp_path / "simulator")
    assert here.selector is not None and bits(there) == bits(here)
    for key in ("statistics", "utility", "gamma_curve", "metrics", "shares"):
        assert there.manifest[key] == here.manifest[key]
    assert there.global_model is not None  # the others are their sites' own, which are sent once and whole
    assert all(torch.equal(weights.half().float(), weights) for weights in there.global_model.values()
               if weights.is_floating_point()), "it came through 16 bits"


@pytest.mark.parametrize("method", METHODS)
def test_the_simulator_and_this_process_agree_bit_for_bit(method: str, pair_root: Path, tmp_path: Path) -> None:
    study = parse_study({**SMALL, "method": method})
    here = run_local(study, pair_root, tmp_path / "local", Silent())
    there = run_simulator(study, pair_root, tmp_path / "simulator")
    assert bits(there) == bits(here)
    assert there.manifest["history"] == here.manifest["history"]
    assert there.manifest["metrics"] == here.manifest["metrics"] and there.mode == here.mode
