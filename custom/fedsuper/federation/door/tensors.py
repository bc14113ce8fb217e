"""The models a site sends: exactly those the method declares, entry by entry, with numbers that can be averaged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from fedsuper.core.feature_sums import FeatureSums
from fedsuper.core.robust import distance
from fedsuper.core.state import Models, State, check_alike, is_float
from fedsuper.errors import FedSuperError
from fedsuper.methods.protocol.upload import Upload

# How a model may move in one round: root mean squares, against its own and against 1. Training that diverges is above.
FARTHEST = 1000.0
VARIANCE = "running_var"  # torch's name for the variance of a norm layer
LARGEST_SUM = 1e15


def check_models(
    models: Any, declared: Mapping[str, Upload], who: str, moved: dict[str, float] | None = None
) -> Models:
    """The models, if they are what `declared` says; how far each moved is put into `moved`."""
    if not isinstance(models, Mapping):
        raise FedSuperError(f"{who}: its models are a {type(models).__name__}, expected named models")
    unknown = [str(name) for name in models if name not in declared]
    if unknown:
        raise FedSuperError(f"{who}: sent '{unknown[0]}', which this method does not send; check the site's FedSuper")
    for name, upload in declared.items():
        if name not in models:
            if not upload.optional:
                raise FedSuperError(f"{who}: did not send '{name}'; check the site's FedSuper")
            continue
        check_tensors(models[name], f"{who}: {name}")
        check_alike(models[name], upload.like, who)
        length = _check_numbers(models[name], upload, who, name)
        if moved is not None:
            moved[name] = length
    return {name: dict(models[name]) for name in declared if name in models}


def check_tensors(state: Any, who: str) -> None:
    """Refuse what is not a mapping of names to plain tensors in memory; lists and sparse tensors would fail later."""
    if not isinstance(state, Mapping):
        raise FedSuperError(f"{who} is a {type(state).__name__}, expected named tensors")
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise FedSuperError(f"{who}: entry {name} is a {type(tensor).__name__}, expected a tensor")
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
            raise FedSuperError(f"{who}: entry {name} is not a plain tensor in memory")


def check_sums(models: Any, name: str, images: int, who: str) -> FeatureSums | None:
    """The feature sums among a site's models, which may hold nothing else; None where it sent none."""
    if not isinstance(models, Mapping) or set(models) - {name}:
        raise FedSuperError(f"{who}: sent models that nobody asked for")
    if name not in models:
        return None
    state = models[name]
    check_tensors(state, f"{who}: {name}")
    if set(state) != {"count", "total", "outer"} or state["count"].numel() != 1:
        raise FedSuperError(f"{who}: its feature sums need count, total and outer, one count and nothing else")
    sums = FeatureSums.from_state(state, who)
    if not 1 <= sums.count <= images:
        raise FedSuperError(f"{who}: its feature sums count {sums.count} images, it described {images}")
    if max(float(sums.total.abs().max()), float(sums.outer.abs().max())) > LARGEST_SUM:
        raise FedSuperError(f"{who}: its feature sums hold numbers beyond {LARGEST_SUM:g}")
    return sums


def _check_numbers(state: State, upload: Upload, who: str, role: str) -> float:
    """How far the model moved, if its numbers are within their limits."""
    for name, tensor in state.items():
        least, most = upload.limits.get(name, (upload.least, upload.most) if is_float(tensor) else (0.0, math.inf))
        if name.rpartition(".")[2] == VARIANCE:
            least = max(least, 0.0)
        smallest, largest = (float(bound) for bound in torch.aminmax(tensor)) if tensor.numel() else (least, most)
        if smallest < least or largest > most:
            raise FedSuperError(
                f"{who}: {role}, entry {name} holds {smallest:g} to {largest:g}, expected "
                f"{least:g} to {most:g}; the update is left out of the round"
            )
    size = math.sqrt(max(1, sum(tensor.numel() for tensor in state.values() if is_float(tensor))))
    length = distance(state, upload.origin)
    moved = length / size
    if upload.most == math.inf and moved > FARTHEST and moved > FARTHEST * (_length(state, upload.origin) / size + 1):
        raise FedSuperError(
            f"{who}: {role} moved by {moved:.3g} in the root mean square, {FARTHEST:g} times what a round of training "
            "can do; the update is left out of the round, look at the site's images and learning rate"
        )
    return length


def _length(state: State, origin: State | None) -> float:
    """The length of the entries of `origin` that came back; 0 without one."""
    return 0.0 if origin is None else distance({name: origin[name] for name in state}, None)
