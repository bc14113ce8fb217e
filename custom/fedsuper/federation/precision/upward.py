"""The way up: of a model that came down to be trained, the change goes up in 16 bits.

A change is a thousandth of a model and has digits to spare where the model itself would lose it. What is no trained
model (gradients, moments, control variates, figures) keeps its 32 bits: Adam divides by numbers of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from fedsuper.core.state import Models, State, check_alike, laid_down
from fedsuper.federation.door.tensors import check_tensors
from fedsuper.federation.precision.rounding import FULL, TYPES, is_narrowed, rounded
from fedsuper.methods.protocol.site_round import SiteRound
from fedsuper.methods.protocol.upload import Upload

CARRY = "carry/"  # of the names in a site's store


def narrow(declared: Mapping[str, Upload], sent: Mapping[str, State], wire: str) -> list[str]:
    """The models that travel in 16 bits: those that come down under a name, and go up under it as trained weights."""
    return [] if wire == FULL else [name for name, one in declared.items() if one.origin is not None and name in sent]


def going_up(site: SiteRound, models: Models, declared: Callable[[], Mapping[str, Upload]]) -> Models:
    """A round's models as they leave; what is rounded off is kept in the site's store, and leaves with the next."""
    wire = site.study.wire
    if wire == FULL:
        return models
    known = declared()
    result = dict(models)
    for name in narrow(known, site.received, wire):
        origin = known[name].origin
        if origin is None or name not in models:
            continue
        change = {entry: tensor - origin[entry] if is_narrowed(tensor) else tensor
                  for entry, tensor in models[name].items()}
        floors = {entry: -origin[entry] for entry, tensor in models[name].items() if is_narrowed(tensor)}
        result[name], left = rounded(change, site.store.models.get(CARRY + name, {}), wire, f"{site.name}, {name}",
                                     floors)
        site.store.models[CARRY + name] = left
    return result


def restored(models: Any, declared: Mapping[str, Upload], sent: Mapping[str, State], wire: str, who: str) -> Any:
    """The models that a site's changes mean; a change that is not of exactly the wire's type is refused.

    What is wrong in any other way is left to `check_models`, which reads the answer next.
    """
    if wire == FULL or not isinstance(models, Mapping):
        return models
    result = dict(models)
    for name in narrow(declared, sent, wire):
        origin = declared[name].origin
        if name in models and origin is not None:
            like = {entry: torch.empty(tensor.shape, dtype=TYPES[wire] if is_narrowed(tensor) else tensor.dtype,
                                       device="meta") for entry, tensor in declared[name].like.items()}
            check_tensors(models[name], f"{who}: {name}")
            check_alike(models[name], like, who)
            result[name] = {entry: laid_down(origin[entry] + tensor.float()) if is_narrowed(origin[entry]) else tensor
                            for entry, tensor in models[name].items()}
    return result
