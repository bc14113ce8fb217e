"""Random state dicts for property tests: a weight, running statistics and a counter, as a norm layer has them."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from fedsuper.core.state import State

NUMBERS = st.floats(-100, 100, allow_nan=False, width=32)
WEIGHTS = st.floats(0.125, 1000, width=32)
LAMBDAS = st.floats(0, 1, allow_nan=False)


def state(values: list[float], counter: int = 0, dtype: torch.dtype = torch.float64) -> State:
    """Six numbers as one layer's state; the variance is made positive."""
    numbers = torch.tensor(values, dtype=dtype)
    return {
        "weight": numbers[:4].reshape(2, 2),
        "running_mean": numbers[4:5],
        "running_var": numbers[5:6].abs(),
        "num_batches_tracked": torch.tensor(counter),
    }


def lists_of_states(
    least: int = 1, most: int = 5, dtype: torch.dtype = torch.float64
) -> st.SearchStrategy[list[State]]:
    """Between `least` and `most` states of one shape."""
    one = st.builds(
        lambda values, counter: state(values, counter, dtype),
        st.lists(NUMBERS, min_size=6, max_size=6),
        st.integers(0, 10**6),
    )
    return st.lists(one, min_size=least, max_size=most)


def vector(given: State) -> torch.Tensor:
    """The floating entries as one vector."""
    return torch.cat([tensor.reshape(-1).double() for tensor in given.values() if tensor.is_floating_point()])


def by_site(states: list[State]) -> dict[str, State]:
    """States under the names site-0, site-1, ..."""
    return {f"site-{index}": given for index, given in enumerate(states)}
