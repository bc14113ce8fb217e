"""Rules that a few lying sites cannot bend far: clipped changes, the median, the trimmed mean, and who stands out.

With K sites of which f lie, the coordinate-wise median holds for f < K/2 and the mean without the b lowest and b
highest values of every coordinate for f <= b (Yin et al. 2018). Clipping bounds what one site can add to a mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import torch

from fedsuper.core.state import State, blocks_of, is_float

# How far a change may stand out: robust z-score of its log norm; with spreads held to these it is 11 to 121 times the
# median. Few sites make a poor estimate: a small one would accuse the honest, a large one excuse anything.
FAR = 6.0
SPREADS = 0.4, 0.8
# A change this many times another's is none of the others' kind, however widely theirs are spread.
WIDE = 1000.0
FEWEST = 3  # of fewer values nobody can say who stands out
CONSISTENT = 1.4826  # the median absolute deviation of a normal variable, in standard deviations


def distance(state: Mapping[str, torch.Tensor], origin: Mapping[str, torch.Tensor] | None) -> float:
    """|w - o| over floating entries in float64; |w| without an origin."""
    total = 0.0
    for name, tensor in state.items():
        if is_float(tensor):
            pair = [tensor] if origin is None else [tensor, origin[name]]
            for here, *start in blocks_of(pair):
                away = here.double() - start[0] if start else here.double()
                total += float(torch.dot(away, away))
    return math.sqrt(total)


def stands_out(now: Mapping[str, float], before: Sequence[float] = ()) -> dict[str, float]:
    """The sites whose change is far longer than the others', with its ratio to the median.

    z = (log n_k - median) / (1.4826 MAD) over this round's and earlier changes; above `FAR` a site stands out. Norms
    are compared as logarithms: sites take different numbers of steps, and the changes of a converging model shrink.
    """
    logs = {site: math.log(max(norm, 1e-30)) for site, norm in now.items()}
    pool = [*logs.values(), *(math.log(max(norm, 1e-30)) for norm in before)]
    if len(pool) < FEWEST:
        return {}
    middle = median(pool)
    least, most = SPREADS
    spread = min(max(CONSISTENT * median(abs(value - middle) for value in pool), least), most)
    return {site: math.exp(min(value - middle, 600.0)) for site, value in logs.items() if value - middle > FAR * spread}


def towers(now: Mapping[str, float], before: Sequence[float] = ()) -> dict[str, float]:
    """The sites whose change is over `WIDE` times the longest of all others; for gradients, whose norms vary freely."""
    found = {}
    for site, norm in now.items():
        others = [*(other for name, other in now.items() if name != site), *before]
        if others and norm > WIDE * max(max(others), 1e-9):
            found[site] = norm / max(max(others), 1e-9)
    return found


def clipped(state: State, origin: State | None, longest: float) -> State:
    """o + (w - o) min(1, longest / |w - o|); integer entries are the site's own."""
    length = distance(state, origin)
    if length <= longest:
        return state
    share = longest / length

    def moved(name: str, tensor: torch.Tensor) -> torch.Tensor:
        start = torch.zeros_like(tensor, dtype=torch.float64) if origin is None else origin[name].double()
        return (start + share * (tensor.double() - start)).to(tensor.dtype)

    return {name: moved(name, tensor) if is_float(tensor) else tensor for name, tensor in state.items()}


def median_state(states: Sequence[State]) -> State:
    """The median of every coordinate, of an even number the mean of the middle two; of integers the largest."""
    return _center(states, (len(states) - 1) // 2)


def trimmed_mean(states: Sequence[State]) -> State:
    """The mean of every coordinate without its K//3 lowest and K//3 highest values."""
    return _center(states, min(len(states) // 3, (len(states) - 1) // 2))


CENTERS: dict[str, Callable[[Sequence[State]], State]] = {"median": median_state, "trimmed": trimmed_mean}


def pull_to(states_by_site: Mapping[str, State], center: State, lam: float) -> dict[str, State]:
    """SoftPull towards a robust center: lam' w_k + (1 - lam') c with lam' = (K lam - 1)/(K - 1), c in the mean's place.

    With one reporter there is nobody to pull towards.
    """
    count = len(states_by_site)
    own = 1.0 if count == 1 else (count * lam - 1) / (count - 1)

    def pulled(name: str, tensor: torch.Tensor) -> torch.Tensor:
        return (own * tensor.double() + (1 - own) * center[name].double()).to(tensor.dtype)

    return {
        site: {name: pulled(name, tensor) if is_float(tensor) else tensor.clone() for name, tensor in state.items()}
        for site, state in states_by_site.items()
    }


def _center(states: Sequence[State], dropped: int) -> State:
    """The mean of the values that remain when `dropped` are taken away at either end of every coordinate."""
    result: State = {}
    for name, first in states[0].items():
        stacked = torch.stack([state[name] for state in states])
        if is_float(first):
            kept = stacked.double().sort(dim=0).values[dropped : len(states) - dropped]
            result[name] = kept.mean(dim=0).to(first.dtype)
        else:
            result[name] = stacked.amax(dim=0) if stacked.dtype != torch.bool else stacked.any(dim=0)
    return result
