"""Ways to change an honest answer: one place of its plain part, one entry of a model, a whole model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fedsuper.core.state import State, is_float
from fedsuper.federation.messages import Message

NAN, INF = float("nan"), float("inf")


def put(path: str, value: Any) -> Callable[[Message], Message]:
    """The answer with `value` at a dotted path of its plain part (a number is a place in a list)."""

    def tell(message: Message) -> Message:
        *way, last = path.split("|")
        node: Any = message.info
        for key in way:
            node = node[int(key) if isinstance(node, list) else key]
        node[int(last) if isinstance(node, list) else last] = value
        return message

    return tell


def drop(path: str) -> Callable[[Message], Message]:
    """The answer without a key."""

    def tell(message: Message) -> Message:
        *way, last = path.split("|")
        node: Any = message.info
        for key in way:
            node = node[key]
        del node[last]
        return message

    return tell


def plain(value: Any) -> Callable[[Message], Message]:
    """The answer with another plain part."""
    return lambda message: Message(message.models, value)


def entry(change: Callable[[torch.Tensor], Any], role: str = "global", only: str = "") -> Callable[[Message], Message]:
    """The answer with one entry of a model changed: the first floating one, or the first that ends in `only`."""

    def tell(message: Message) -> Message:
        state = message.models[role]
        name = next(n for n, t in state.items() if (n.endswith(only) if only else is_float(t) and t.dim() > 1))
        state[name] = change(state[name])
        return message

    return tell


def whole(change: Callable[[State], Any], role: str = "global") -> Callable[[Message], Message]:
    """The answer with a whole model changed."""

    def tell(message: Message) -> Message:
        message.models[role] = change(message.models[role])
        return message

    return tell


def scaled(factor: float) -> Callable[[State], State]:
    """All numbers of a model times `factor`."""
    return lambda state: {name: t * factor if is_float(t) else t for name, t in state.items()}


def nested(depth: int) -> dict[str, Any]:
    """An object in an object in an object."""
    inner: dict[str, Any] = {}
    for _ in range(depth):
        inner = {"a": inner}
    return inner
