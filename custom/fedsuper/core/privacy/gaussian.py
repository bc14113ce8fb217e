"""The Gaussian mechanism on a model's change: bound how far a site can move it, then drown what is left in noise.

    out = o + (w - o) min(1, C / |w - o|) + N(0, (z C)^2 I)

o is the model that was sent to the site, which the server knows, so only the *difference* needs protection; noise on
weights themselves would have to be as large as the weights. Whatever the site's data, the clipped difference lies in a
ball of radius C: exchanging all of it moves the release by at most 2 C, its sensitivity. In units of the sensitivity
the noise is z / 2, which is what the accountant is told.
"""

from __future__ import annotations

import torch

from fedsuper.core.robust import clipped
from fedsuper.core.state import State, is_float

SENSITIVITY = 2.0  # of a clipped change, in units of the clip: from any point of the ball to any other


def system_random() -> torch.Generator:
    """A generator seeded by the system, never by the study: who knows the seed could take the noise off again."""
    random = torch.Generator()
    random.seed()
    return random


def with_noise(state: State, origin: State | None, clip: float, noise: float, random: torch.Generator) -> State:
    """`state` as it may leave a site: its change from `origin` clipped to `clip`, noise of `noise` clips added.

    Without an origin the state is a change itself (a gradient). Counters tell only how many batches there were; they
    are `origin`'s own where there is one.
    """
    bounded = clipped(state, origin, clip)

    def blurred(name: str, tensor: torch.Tensor) -> torch.Tensor:
        if not is_float(tensor):
            return origin[name] if origin is not None else tensor
        drawn = torch.randn(tensor.shape, generator=random, dtype=torch.float64)
        return (tensor.double() + noise * clip * drawn).to(tensor.dtype)

    return {name: blurred(name, tensor) for name, tensor in bounded.items()}
