"""Differential privacy of what goes up (`privacy.noise`): which models it covers, and what the manifest says of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fedsuper.config import PrivacyConfig, Study
from fedsuper.core.privacy.accountant import Releases, spent
from fedsuper.core.privacy.gaussian import SENSITIVITY, system_random, with_noise
from fedsuper.core.state import Models, State, is_float
from fedsuper.data.task import Task
from fedsuper.errors import FedSuperError
from fedsuper.federation.door.tensors import VARIANCE
from fedsuper.federation.messages import HANDOVER
from fedsuper.federation.outlet.declared import travels
from fedsuper.methods.protocol.upload import Upload

UNITS = {"update": "all data of a site", "dp-sgd": "one training image"}


def noised(models: Models, declared: Mapping[str, Upload], config: PrivacyConfig) -> Models:
    """Every model with its change clipped and noise added, within the bounds that it is declared with.

    Bounds are applied after the noise, which costs no privacy: a variance stays positive.
    """
    random = system_random()
    result: Models = {}
    for name, state in models.items():
        upload = declared[name]
        if upload.most < math.inf:
            raise FedSuperError(_no_noise(name))
        state = with_noise(state, upload.origin, config.clip, config.noise, random)
        result[name] = _bounded(state, upload)
    return result


def check_coverage(study: Study, task: Task) -> None:
    """Before round 1: refuse a study with noise that would send something noise cannot protect."""
    if study.privacy.noise == 0:
        return
    bare = [travel.name for travel in travels(study, task) if travel.task != HANDOVER and travel.what.startswith("fig")]
    if bare:
        raise FedSuperError(_no_noise(bare[0]))
    spent({1.0: 1})  # the accountant is there, before anybody trains


def sums_noise(study: Study) -> float:
    """The noise on feature sums, in units of what one image more or less changes."""
    return max(study.selector.noise, study.privacy.noise)


def statement(study: Study, releases: Mapping[str, int], sums: Mapping[str, int]) -> dict[str, Any]:
    """What the manifest says: how much noise, and the epsilon of every site by what it sent.

    `releases` counts a site's noised models or sums, `sums` its feature sums. A site's own file also counts answers
    that were lost on the way.
    """
    config = study.privacy
    last = sums_noise(study) / SENSITIVITY

    def cost(site: str) -> float:
        counted: dict[float, int] = {config.noise / SENSITIVITY: releases[site]}
        counted[last] = counted.get(last, 0) + sums.get(site, 0)
        told: Releases = counted
        return spent(told, config.delta)

    return {
        "mechanism": config.mechanism, "noise": config.noise, "clip": config.clip, "delta": config.delta,
        "protects": UNITS[config.mechanism], "feature_sums_protect": UNITS["dp-sgd"],
        "epsilon": {site: cost(site) for site in releases},
    }


def _no_noise(name: str) -> str:
    return (f"privacy.noise: '{name}' holds figures of single images or of validation data, which noise on changes "
            "does not protect; use another method (not feddg, not fedsm's `personal: auto` or `lambda: auto`), or set "
            "privacy.noise to 0")


def _bounded(state: State, upload: Upload) -> State:
    low = {name: 0.0 if name.rpartition(".")[2] == VARIANCE else upload.least for name in state}
    return {name: tensor.clamp(min=low[name]) if is_float(tensor) and low[name] > -math.inf else tensor
            for name, tensor in state.items()}
