"""Super models small enough to reason about: random ones, and ones whose answers are fixed beforehand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fedsuper.config.reading import parse_study
from fedsuper.core.state import State
from fedsuper.core.supermodel import SuperModel
from fedsuper.models.build import build_segmentation, build_selector, first_weights

STUDY: dict[str, Any] = {"method": "fedsm", "image_size": 32, "model": {"channels": [4, 8], "residual_units": 0}}
RETINA = {"task": "retina", "channels": 3, "regions": {"disc": [1, 2], "cup": [2]}}
PROSTATE = {"task": "prostate", "channels": 1, "regions": {"prostate": [1]}}


def random_super_model(
    sites: Sequence[str] = ("A", "B", "C"), mode: str = "select", task: Mapping[str, Any] = RETINA, **study: Any
) -> SuperModel:
    """Untrained models, each with its own weights; the selector's head is widened so that its answers differ."""
    parsed = parse_study(STUDY | study)
    channels = task["channels"] * parsed.preprocess.slices

    def segmentation(seed: int) -> State:
        return first_weights(lambda: build_segmentation(parsed.model, channels, len(task["regions"])), seed)

    classes = len(sites) + (mode in ("select-all", "mix"))
    selector = first_weights(lambda: build_selector(parsed.selector, channels, classes), 7)
    selector["head.weight"] *= 8
    manifest = {"method": parsed.method, "gamma": 0.6, "task": dict(task), "study": parsed.to_json(), "metrics": {}}
    personal = {site: segmentation(seed) for seed, site in enumerate(sites, start=1)}
    return SuperModel(list(sites), segmentation(0), personal, selector, mode, manifest)


def constant_super_model(
    answers: Mapping[str, Sequence[bool]], q: Mapping[str, float] | None = None, mode: str = "select",
    task: Mapping[str, Any] = RETINA, **study: Any
) -> SuperModel:
    """Every model marks each region everywhere or nowhere (`answers`); the selector always says `q`."""
    sites = [name for name in answers if name != "global"]
    model = random_super_model(sites or ["A"], mode, task, **study)
    model.sites = sites or ["A"]
    for name, state in model.experts().items():
        if name in answers:
            _make_constant(state, [9.0 if marked else -9.0 for marked in answers[name]])
    model.personal = {site: model.personal[site] for site in sites}
    model.global_model = model.global_model if "global" in answers else None
    if q is None:
        model.selector = None
    else:
        assert model.selector is not None
        _make_constant(model.selector, [math.log(max(value, 1e-30)) for value in q.values()])
    return model


def _make_constant(state: State, values: Sequence[float]) -> None:
    """All weights zero but the last bias, which is then the output."""
    names = [name for name, tensor in state.items() if tensor.is_floating_point()]
    for name in names:
        state[name].zero_()
    last = [name for name in names if name.endswith("bias") and len(state[name]) == len(values)][-1]
    state[last].copy_(torch.tensor(values))
