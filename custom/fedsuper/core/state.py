"""State dicts as vectors: the checks and the small algebra every method stands on.

A `State` maps names to tensors. Floating-point entries are vector components; integer entries (for example
BatchNorm's `num_batches_tracked`) are counters and are never averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from fedsuper.errors import FedSuperError

State = dict[str, torch.Tensor]
Models = dict[str, State]
Blank = Callable[[Sequence[int], torch.dtype], torch.Tensor]
# Where room for models is made now: None is memory, as torch has it.
_room: ContextVar[Blank | None] = ContextVar("room", default=None)
BLOCK = 65_536  # numbers that are worked on at a time: in float64 they stay in a core's cache


@contextmanager
def room_for_models(blank: Blank | None) -> Iterator[None]:
    """Within it, models that outlive a round are made with `blank(shape, dtype)` instead of in memory."""
    token = _room.set(blank)
    try:
        yield
    finally:
        _room.reset(token)


def room_like(tensor: torch.Tensor) -> torch.Tensor:
    """An unwritten tensor of the same shape and type, where models rest now."""
    blank = _room.get()
    return torch.empty(tensor.shape, dtype=tensor.dtype) if blank is None else blank(tensor.shape, tensor.dtype)


def laid_down(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor where models rest now: itself in memory, elsewhere a copy."""
    return tensor if _room.get() is None else room_like(tensor).copy_(tensor)


def clone(state: Mapping[str, torch.Tensor]) -> State:
    """Detached copies on the CPU that share no memory with the source."""
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in state.items()}


def is_float(tensor: torch.Tensor) -> bool:
    """Whether an entry takes part in averaging."""
    return tensor.is_floating_point()


def check_alike(state: Mapping[str, torch.Tensor], reference: Mapping[str, torch.Tensor], who: str) -> None:
    """Refuse an update whose keys, shapes, dtypes or values would poison an average; name its sender."""
    check_form(state, reference, who)
    check_finite(state, who)


def check_form(state: Mapping[str, torch.Tensor], reference: Mapping[str, torch.Tensor], who: str) -> None:
    """The same without a look at the values."""
    missing, extra = sorted(reference.keys() - state.keys()), sorted(state.keys() - reference.keys())
    if missing or extra:
        named = f"missing {missing[0]}" if missing else f"unexpected {extra[0]}"
        raise FedSuperError(
            f"{who}: the update's entries differ from the model's ({named}, {len(missing)} missing, "
            f"{len(extra)} extra); the site runs another model: check its FedSuper version and study"
        )
    for name, expected in reference.items():
        tensor = state[name]
        if tensor.shape != expected.shape or tensor.dtype != expected.dtype:
            raise FedSuperError(
                f"{who}: entry {name} is {tuple(tensor.shape)} {tensor.dtype}, expected {tuple(expected.shape)} "
                f"{expected.dtype}; the site runs another model: check its FedSuper version and study"
            )


def check_finite(state: Mapping[str, torch.Tensor], who: str) -> None:
    """Refuse NaN and infinity."""
    for name, tensor in state.items():
        if is_float(tensor) and not _all_finite(tensor):
            raise FedSuperError(
                f"{who}: entry {name} holds NaN or infinite values; the update is left out of the "
                "round, look at the site's images and learning rate"
            )


def check_sum(total: Mapping[str, torch.Tensor], states: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
    """Refuse NaN and infinity among `states` (by sender), of which `total` holds a float64 sum, cast back.

    One number that is not finite makes a sum that is not, so the values are looked at again only to name the sender.
    """
    if not all(_all_finite(tensor) for tensor in total.values() if is_float(tensor)):
        for who, state in states.items():
            check_finite(state, who)


def _all_finite(tensor: torch.Tensor) -> bool:
    """In one pass and without a mask: a NaN anywhere is both the least and the greatest value."""
    if not tensor.numel():
        return True
    smallest, largest = torch.aminmax(tensor)
    return math.isfinite(smallest.item()) and math.isfinite(largest.item())


def combine(states: Sequence[Mapping[str, torch.Tensor]], weights: Sequence[float]) -> State:
    """sum_k a_k s_k over floating entries in float64, cast back; integer entries take the maximum.

    The sum runs in the order given: callers pass sites in label order, so that every engine adds in the same
    order and gets the same bits.
    """
    if not states or len(states) != len(weights):
        raise ValueError(f"{len(states)} states need as many weights, got {len(weights)}")
    result: State = {}
    for name, first in states[0].items():
        if is_float(first):
            result[name] = room_like(first)
            for target, *parts in blocks_of([result[name], *(state[name] for state in states)]):
                total = torch.zeros(len(target), dtype=torch.float64)
                for part, weight in zip(parts, weights, strict=True):
                    total.add_(part, alpha=float(weight))
                target.copy_(total)
        else:
            counters = torch.stack([state[name] for state in states])
            result[name] = counters.amax(dim=0) if counters.dtype != torch.bool else counters.any(dim=0)
    return result


def blocks_of(tensors: Sequence[torch.Tensor]) -> Iterator[tuple[torch.Tensor, ...]]:
    """Tensors of one shape, a `BLOCK` of each at a time, as flat views: float64 sums need no copy of a whole model."""
    flat = [tensor.reshape(-1) for tensor in tensors]
    for start in range(0, flat[0].numel(), BLOCK):
        yield tuple(flat) if flat[0].numel() <= BLOCK else tuple(each[start : start + BLOCK] for each in flat)


def select(state: Mapping[str, torch.Tensor], names: set[str] | frozenset[str]) -> State:
    """The entries of `state` whose name is in `names`, in the state's own order."""
    return {name: tensor for name, tensor in state.items() if name in names}
