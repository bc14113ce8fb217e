"""The way down: a model that is to be trained and comes back is sent in 16 bits, the same bits to all who share it.

Uploads are changes of what was received (`upward`), and the server adds them to what it sent, s = Q(w + e). With
error feedback w + e is then the model in full precision, as if the server kept it: after a mean of changes d the next
message is Q(s + d + e') = Q(w + e + d). A change too small for 16 bits is never lost, it waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fedsuper.core.state import Models, State
from fedsuper.federation.messages import TRAIN
from fedsuper.federation.outlet.declared import declared_models
from fedsuper.federation.precision.rounding import FULL, rounded, widened
from fedsuper.federation.precision.upward import narrow
from fedsuper.methods.protocol.method import Method
from fedsuper.methods.protocol.server import Server

Sent = dict[str, Models]  # by site
Rounded = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # as it is meant, as it travels, as it is heard


def going_down(server: Server, method: Method[Any], sites: Sequence[str]) -> tuple[Sent, Sent]:
    """What the method sends each site, as the site will hold it, and as it travels.

    What is rounded off is kept with the server's state, by the model's key and for the present phase alone: a phase
    that sends models which were chosen and scored must not change them.
    """
    meant = {site: method.during(server.phase).downlink(server, site) for site in sites}
    wire = server.study.wire
    if wire == FULL:
        return meant, meant
    per_site = {role.name for role in method.roles() if role.per_site}
    lot = _Lot(wire, {key: state for key, state in server.carry.items() if key.startswith(f"{server.phase}:")})
    heard: Sent = {site: dict(models) for site, models in meant.items()}
    travels: Sent = {site: dict(models) for site, models in meant.items()}
    for site, models in meant.items():
        for name in narrow(declared_models(TRAIN, method, server, site, models), models, wire):
            key = f"{server.phase}:{name}/{site}" if name in per_site else f"{server.phase}:{name}"
            travels[site][name], heard[site][name] = lot.round(key, models[name])
    server.carry = lot.carry
    return heard, travels


class _Lot:
    """The models of one round: each entry is rounded once for all who share it, and held once."""

    def __init__(self, wire: str, carry: Models) -> None:
        self.wire = wire
        self.carry = carry
        self._done: dict[str, dict[str, Rounded]] = {}

    def round(self, key: str, state: State) -> tuple[State, State]:
        """A model as it travels and as it is heard. One that shares no more than its key with another is on its own."""
        done = self._done.setdefault(key, {})
        fresh = {entry: tensor for entry, tensor in state.items() if entry not in done}
        sent, left = rounded(fresh, self.carry.get(key, {}), self.wire, f"server, {key}")
        wide = widened({key: sent}, self.wire)[key]
        done |= {entry: (state[entry], sent[entry], wide[entry]) for entry in fresh}
        self.carry[key] = self.carry.get(key, {}) | left
        other = {entry: tensor for entry, tensor in state.items() if done[entry][0] is not tensor}
        alone, _ = rounded(other, {}, self.wire, f"server, {key}")
        wide = widened({key: alone}, self.wire)[key]
        return ({entry: alone[entry] if entry in alone else done[entry][1] for entry in state},
                {entry: wide[entry] if entry in wide else done[entry][2] for entry in state})
