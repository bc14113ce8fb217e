"""Weights left on disk: read when asked for, refused when hostile, few of them held at once."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from artifact_files import edit, same, weights_in
from safetensors.torch import load, save
from super_models import random_super_model

from fedsuper.core.state import State
from fedsuper.core.supermodel import SuperModel
from fedsuper.errors import FedSuperError
from fedsuper.inference.artifact import StoredModels, load_super_model, open_super_model, save_super_model
from fedsuper.inference.opening import open_predictor
from fedsuper.inference.predictor import MOST_NETS


@pytest.fixture
def model() -> SuperModel:
    return random_super_model(["A", "B"])


def swap_weights(folder: Path, key: str, data: bytes) -> None:
    """Other bytes in a model's file, with manifest and seal to match: only what is in them can give them away."""
    entry = json.loads((folder / "supermodel.json").read_text())["files"][key]
    (folder / entry["name"]).write_bytes(data)
    edit(folder, lambda m: m["files"][key].update(sha256=hashlib.sha256(data).hexdigest()), reseal=True)


def test_an_opened_super_model_is_the_loaded_one(model: SuperModel, tmp_path: Path) -> None:
    model.extras["rotation"] = {"w": torch.arange(3.0)}
    save_super_model(model, tmp_path)
    opened = open_super_model(tmp_path)
    assert isinstance(opened.personal, StoredModels) and same(load_super_model(tmp_path), opened)
    assert opened.manifest == load_super_model(tmp_path).manifest
    assert opened.personal["A"] is not opened.personal["A"], "each access reads the file, nothing is held"
    assert len(repr(opened)) < 200 and "B" in opened.personal and "X" not in opened.personal
    save_super_model(opened, tmp_path / "copy")
    assert weights_in(tmp_path / "copy") == weights_in(tmp_path)


def pickled() -> bytes:
    """What a torch file with code in it begins like."""
    return b"PK\x03\x04archive/data.pkl\x80\x02cos\nsystem\nq\x00X\x04\x00\x00\x00exitq\x01\x85q\x02Rq\x03."


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pickle inside": (lambda f: swap_weights(f, "personal/B", pickled()), "is not a safetensors file"),
    "truncated": (lambda f: swap_weights(f, "personal/B", good(f)[:-40]), "is not a safetensors file"),
    "header of terabytes": (lambda f: swap_weights(f, "personal/B", b"\xff" * 7 + good(f)), "not a safetensors file"),
    "NaN": (lambda f: swap_weights(f, "personal/B", changed(f, lambda s: s | {first(s): s[first(s)] * math.nan})),
            "hold NaN or infinite values"),
    "infinite": (lambda f: swap_weights(f, "selector", changed(f, lambda s: {"w": torch.tensor([math.inf])})),
                 "weights of 'selector' hold NaN"),
    "a missing tensor": (lambda f: swap_weights(f, "personal/B", changed(f, lambda s: without(s, first(s)))),
                         "weights of 'B' do not fit the study's net"),
    "a tensor too many": (lambda f: swap_weights(f, "global", changed(f, lambda s: s | {"more": torch.ones(1)})),
                          "weights of 'global' do not fit the study's net"),
    "another shape": (lambda f: swap_weights(f, "personal/B", changed(f, lambda s: s | {first(s): torch.ones(7)})),
                      "weights of 'B' do not fit the study's net"),
}


def good(folder: Path) -> bytes:
    return (folder / "global.safetensors").read_bytes()


def changed(folder: Path, change: Callable[[State], State]) -> bytes:
    return save(change(load(good(folder))), {"format": "pt"})


def first(state: State) -> str:
    return next(iter(state))


def without(state: State, name: str) -> State:
    return {key: tensor for key, tensor in state.items() if key != name}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_weights_are_refused_before_an_image_is_read(model: SuperModel, tmp_path: Path, kind: str) -> None:
    save_super_model(model, tmp_path / "sm")
    hostile, expected = HOSTILE[kind]
    hostile(tmp_path / "sm")
    (tmp_path / "x.png").write_bytes(b"never read")
    with pytest.raises(FedSuperError, match=expected) as caught:
        open_predictor(tmp_path / "sm")
    assert "\n" not in str(caught.value)


def test_a_weights_file_that_leads_elsewhere_is_bound_by_its_digest(model: SuperModel, tmp_path: Path) -> None:
    save_super_model(model, tmp_path / "sm")
    (tmp_path / "secret").write_bytes(b"not yours")
    (tmp_path / "sm" / "global.safetensors").unlink()
    (tmp_path / "sm" / "global.safetensors").symlink_to(tmp_path / "secret")
    with pytest.raises(FedSuperError, match="torn or altered") as caught:
        open_predictor(tmp_path / "sm")
    assert "not yours" not in str(caught.value)


def test_a_folder_of_fifty_sites_holds_a_few_nets(tmp_path: Path) -> None:
    save_super_model(random_super_model([f"site-{number}" for number in range(12)]), tmp_path)
    predictor = open_predictor(tmp_path)
    for name in predictor.experts:
        predictor.logits(name, torch.zeros(1, 3, 32, 32))
    assert len(predictor._nets) == MOST_NETS < len(predictor.experts)
    assert next(reversed(predictor._nets)) == "site-11"
