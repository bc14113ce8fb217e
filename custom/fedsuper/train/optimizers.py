"""torch's Adam and SGD without torch's compiler.

torch 2.13 wraps the methods of its optimizers so that a compiled program stops at them, and the wrappers import
`torch._dynamo` at their first call: over a second of processor time and 800 modules in every process that trains or
tunes. Nothing here compiles an optimizer (`compute.compile` compiles nets), so there is nothing to stop. The functions
inside the wrappers, and so the steps, are torch's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

MARK = "__dynamo_disable"  # where torch keeps the form of a function that its compiler leaves alone


def _eager(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step itself, without gradients, as its wrapper would call it."""
    plain: Callable[..., Any] = torch.no_grad()(inspect.unwrap(step))
    return plain


def _leave_alone(method: Any) -> None:
    """Let a wrapped method call its function as it is, unless torch has prepared it already."""
    plain = getattr(method, "__wrapped__", None)
    if plain is not None and not hasattr(plain, MARK):
        setattr(plain, MARK, plain)


for _name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):
    _leave_alone(getattr(torch.optim.Optimizer, _name))


class Adam(torch.optim.Adam):
    """Kingma and Ba (2015)."""

    step = _eager(torch.optim.Adam.step)


class SGD(torch.optim.SGD):
    """Stochastic gradient descent, with momentum where asked for."""

    step = _eager(torch.optim.SGD.step)
