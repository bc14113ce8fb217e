"""Centralized training: all sites' data in one place, one model. The bound that federated methods are held to."""

from __future__ import annotations

from fedsuper.methods.fedavg import FedAvg
from fedsuper.methods.protocol.method import NoKnobs


class Centralized(FedAvg[NoKnobs]):
    """One pseudo-site holds the pooled data; a federation of one averages nothing.

    It cannot be run where data must stay apart, only where one machine sees the whole data root.
    """

    name = "centralized"
    paper = "FedSM section 4, upper bound"
    travels = "the images: for comparison only"
    pooled = True
