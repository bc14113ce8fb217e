"""A super model's folder from outside: its weights as bytes, its manifest altered, two super models compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch

from fedsuper.core.state import State
from fedsuper.core.supermodel import SuperModel
from fedsuper.inference.supermodel_manifest import seal


def same(a: SuperModel, b: SuperModel) -> bool:
    def models(one: SuperModel) -> dict[str, State]:
        return dict(one.experts()) | {"the selector": one.selector or {}} | one.extras

    left, right = models(a), models(b)
    return (a.sites, a.mode, left.keys()) == (b.sites, b.mode, right.keys()) and all(
        left[key].keys() == right[key].keys()
        and all(torch.equal(left[key][name], right[key][name]) for name in left[key])
        for key in left
    )


def weights_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


def edit(folder: Path, change: Callable[[dict], object], reseal: bool = False) -> None:
    """Alter the manifest; one who knows the format puts a new seal on it."""
    path = folder / "supermodel.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    if reseal:
        manifest["seal"] = seal(manifest)
    path.write_text(json.dumps(manifest))
