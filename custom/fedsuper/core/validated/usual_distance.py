"""How usual a distance is: the share of the sites' own images that is expected to lie farther from every site.

A site's validation images are a handful, and a limit read off the images themselves would hang on one or two of them.
So the logarithm of a site's distances is taken for normal. With n_j, m_j and s_j^2 their number, mean and variance, s^2
the variance within all sites, and n_0 images' worth of it added to each site's, a new image of site j follows Student:

    (log d - m_j) / (t_j sqrt(1 + 1/n_j)) ~ t(n_j - 1 + n_0),    t_j^2 = ((n_j - 1) s_j^2 + n_0 s^2) / (n_j - 1 + n_0)
    familiarity(d) = mean_j P(a new image of site j lies beyond d)

so that 5% of images like those that trained have less than .05, and an image unlike all of them hardly anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

# Upper edges of the distance histogram, an eighth apart; the last bin is open.
EDGES = tuple(10 ** (index / 20) for index in range(-40, 121))
# Images less familiar than this are shown to a person.
REVIEW_BELOW = 0.05
# Images so many times as far as the farthest validation image are nobody's kind: no site's model is meant for them.
FOREIGN = 2.0
# n_0; 2 and 6 flagged 4.6 and 5.0% of further images of 16 development federations, this 4.8%.
COMMON_IMAGES = 4
MOST_DEGREES = 200  # beyond, Student's distribution is the normal one

_LOG_EDGES = torch.tensor(EDGES, dtype=torch.float64).log()
_STEP = math.log(EDGES[1] / EDGES[0])
_CENTERS = [float(_LOG_EDGES[0]) - _STEP / 2, *(float(edge) + _STEP / 2 for edge in _LOG_EDGES)]
_LEAST_VARIANCE = _STEP**2 / 12  # of what is known to a bin only


def histogram(distances: torch.Tensor) -> list[int]:
    """Counts per bin of `EDGES`."""
    bins = torch.bucketize(distances, torch.tensor(EDGES, dtype=torch.float64))
    return [int(count) for count in torch.bincount(bins, minlength=len(EDGES) + 1)]


def expected_beyond(histograms: Sequence[Sequence[int]]) -> list[float]:
    """At each edge, the share of a site's images that is expected beyond it, the mean over sites."""
    counts = [sum(each) for each in histograms]
    means = [_mean(each, _CENTERS) for each in histograms]
    squares = [math.fsum(n * (center - mean) ** 2 for n, center in zip(each, _CENTERS, strict=True))
               for each, mean in zip(histograms, means, strict=True)]
    degrees = sum(counts) - len(counts)
    within = max(_LEAST_VARIANCE, math.fsum(squares) / degrees) if degrees else math.log(FOREIGN) ** 2
    total = torch.zeros_like(_LOG_EDGES)
    for count, mean, square in zip(counts, means, squares, strict=True):
        known = count - 1 + COMMON_IMAGES
        spread = math.sqrt((square + COMMON_IMAGES * within) / known * (1 + 1 / count))
        total += student_beyond((_LOG_EDGES - mean) / spread, known)
    return [float(share) for share in total / len(counts)]


def farthest(histograms: Sequence[Sequence[int]]) -> float:
    """The edge of the bin with the farthest image of any site."""
    last = max(place for each in histograms for place, count in enumerate(each) if count)
    return EDGES[min(last, len(EDGES) - 1)]


def familiarity(distances: torch.Tensor, shares: Sequence[float]) -> torch.Tensor:
    """The share expected beyond these distances, interpolated between the edges in log distance."""
    heights = torch.tensor([*shares], dtype=torch.float64)
    place = distances.clamp(min=1e-300).log()
    upper = torch.bucketize(place, _LOG_EDGES).clamp(1, len(EDGES) - 1)
    left, right = _LOG_EDGES[upper - 1], _LOG_EDGES[upper]
    part = ((place - left) / (right - left)).clamp(0, 1)
    inside = heights[upper - 1] + part * (heights[upper] - heights[upper - 1])
    return torch.where(place > _LOG_EDGES[-1], torch.zeros_like(inside), inside)


def foreign(distances: torch.Tensor, limit: float) -> torch.Tensor:
    """Whether an image is more than `FOREIGN` times as far as the farthest validation image, which lies at `limit`.

    A familiarity below `REVIEW_BELOW` is not enough to take a site's model from an image: one in twenty of the site's
    own images lies there.
    """
    return distances > FOREIGN * limit


def farthest_by_shares(shares: Sequence[float]) -> float:
    """The same edge for super models that only kept the validation images' own shares beyond each edge."""
    last = max((place for place, share in enumerate(shares) if share > 0), default=-1)
    return EDGES[min(last + 1, len(EDGES) - 1)]


def student_beyond(x: torch.Tensor, degrees: int) -> torch.Tensor:
    """P(T > x) for Student's t with a whole number of degrees of freedom (Abramowitz and Stegun, 26.7.3, 26.7.4)."""
    degrees = min(degrees, MOST_DEGREES)
    angle = torch.atan(x / math.sqrt(degrees))
    square = angle.cos().square()
    odd = degrees % 2
    term = angle.cos() if odd else torch.ones_like(angle)
    series = torch.zeros_like(angle)
    for power in range(odd, degrees - 1, 2):
        series = series + term
        term = term * square * (power + 1) / (power + 2)
    within = angle.sin() * series
    if odd:
        within = (angle + within) * 2 / math.pi
    return (1 - within) / 2


def _mean(counts: Sequence[int], values: Sequence[float]) -> float:
    return math.fsum(n * value for n, value in zip(counts, values, strict=True)) / sum(counts)
