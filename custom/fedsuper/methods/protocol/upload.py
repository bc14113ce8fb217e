"""What a method declares of every model that comes up: the server's door lets nothing else in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from fedsuper.core.state import State


@dataclass(frozen=True)
class Upload:
    """What may come up under one name.

    Names, shapes and types of its entries are those of `like`; every number lies in [`least`, `most`]. `origin` is the
    model from which it was trained: its distance from there is how far a site moved it. None for what is a change
    itself (a gradient, a difference). One that is `optional` may be missing, any other must be there. `limits` gives
    single entries, counters included, limits of their own.
    """

    like: State
    origin: State | None = None
    least: float = -math.inf
    most: float = math.inf
    optional: bool = False
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def model(state: State, optional: bool = False) -> Upload:
    """A model trained from `state`."""
    return Upload(state, origin=state, optional=optional)
