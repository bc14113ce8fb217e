"""Rounding to the 16 bits of the wire, with error feedback: what a message left out is added to the next one.

A sender that means x_1, x_2, ... sends s_t = Q(x_t + e_t) and keeps e_{t+1} = x_t + e_t - s_t, with e_1 = 0. Then

    s_1 + ... + s_T = x_1 + ... + x_T - e_{T+1}

whatever T is: the receiver's running sum is off by the rounding of one message, never by that of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fedsuper.core.state import State, laid_down
from fedsuper.errors import FedSuperError
from fedsuper.federation.door.tensors import VARIANCE

FULL = "fp32"
TYPES: Mapping[str, torch.dtype] = {"fp16": torch.float16, "bf16": torch.bfloat16}
LESS = 1 - 2**-6  # of a number: smaller than it by more than it can be rounded


def is_narrowed(tensor: torch.Tensor) -> bool:
    """Whether an entry is of the kind that is sent in 16 bits; counters and figures in float64 are not."""
    return tensor.dtype == torch.float32


def rounded(state: State, before: State, wire: str, who: str, floors: State | None = None) -> tuple[State, State]:
    """What is sent of `state`, and what is left for the next time; `before` is what was left the last time.

    Counters are sent as they are. A variance may not end below 0 at the receiver, who adds it to -`floors` (to nothing
    without it): it is rounded upwards where it would, and the error fed back is larger.
    """
    sent: State = {}
    left: State = {}
    for name, tensor in state.items():
        if not is_narrowed(tensor):
            sent[name] = tensor
            continue
        meant = tensor + before[name] if name in before else tensor
        if name.rpartition(".")[2] == VARIANCE:
            sent[name] = _not_below(meant, floors[name] if floors else torch.zeros_like(meant), TYPES[wire])
        else:
            sent[name] = meant.to(TYPES[wire])
        if not bool(sent[name].isfinite().all()):
            raise FedSuperError(f"{who}: entry {name} reaches {float(meant.abs().max()):.3g}, which {wire} cannot hold "
                                f"(65504 is the most of fp16); set `wire: {FULL}`, or bf16")
        left[name] = laid_down(meant - sent[name].to(meant.dtype))
        sent[name] = laid_down(sent[name])
    return sent, left


def _not_below(meant: torch.Tensor, floor: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """`meant` rounded to a number that is not below `floor`, which is 0 or less: nearer to 0 where need be, or 0."""
    bounded = torch.maximum(meant, floor)
    found = bounded.to(kind)
    for share in (LESS, 0.0):
        found = torch.where(found.to(floor.dtype) < floor, (bounded * share).to(kind), found)
    return found


def widened(models: Mapping[str, State], wire: str) -> dict[str, State]:
    """Models as they came from the wire, with every number in 32 bits again."""
    if wire == FULL:
        return dict(models)
    return {name: {entry: laid_down(tensor.float()) if tensor.dtype == TYPES[wire] else tensor
                   for entry, tensor in state.items()} for name, state in models.items()}
