"""What a series of Gaussian releases has cost: epsilon for a given delta, by opacus' Renyi accountant.

Releases are counted, never estimated: k releases with noise of z sensitivities each cost what the accountant says of
(z, k). No amplification by sampling is claimed, because a site's batches are not drawn by the coin flips it needs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping

DELTA = 1e-5
Releases = Mapping[float, int]  # noise in units of the sensitivity -> how many


def spent(releases: Releases, delta: float = DELTA) -> float:
    """The least epsilon that the accountant can vouch for; infinite where something went out without noise."""
    counted = {noise: count for noise, count in releases.items() if count}
    if not counted:
        return 0.0
    if min(counted) <= 0:
        return math.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of opacus: other libraries' deprecations, the range of orders
        from opacus.accountants import RDPAccountant

        accountant = RDPAccountant()
        accountant.history = [(noise, 1.0, count) for noise, count in counted.items()]
        return float(accountant.get_epsilon(delta))
